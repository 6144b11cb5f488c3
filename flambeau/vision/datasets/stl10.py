"""STL10: 96 x 96 pictures in plain bytes."""

import os

from flambeau.vision._pillow import image_module
from flambeau.vision.datasets.utils import download_and_extract_archive, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset, not_found


class STL10(VisionDataset):
    """Ten classes, few labels, many pictures without; in `root/stl10_binary`.

    split: 'train', 'test', 'unlabeled' or 'train+unlabeled'; folds: one of the ten parts of 'train', 0 to 9.
    `data` is an array (count, 3, 96, 96) of bytes, `labels` one of int64 (-1: none).
    """

    base_folder = "stl10_binary"
    url = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
    filename = "stl10_binary.tar.gz"
    tgz_md5 = "91f7769df0f17e558f3565bffb0c7dfb"
    class_names_file, folds_list_file = "class_names.txt", "fold_indices.txt"
    splits = ("train", "train+unlabeled", "unlabeled", "test")

    def __init__(self, root, split="train", folds=None, transform=None, target_transform=None,
                 download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split, self.folds = verify_str_arg(split, "split", self.splits), folds
        if folds is not None and folds not in range(10):
            raise ValueError(f"Value for argument folds should be in the range [0, 10), but got {folds}.")
        self._folder = os.path.join(self.root, self.base_folder)
        wanted = [f"{part}_X.bin" for part in split.split("+")]
        if download and not all(map(self._exists, wanted)):
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)
        if not all(map(self._exists, wanted)):
            not_found(self, self._folder, wanted, [self.url])
        self._load()

    def _exists(self, name):
        return os.path.isfile(os.path.join(self._folder, name))

    def _load(self):
        import numpy
        pictures, labels = zip(*map(self._read, self.split.split("+")))
        self.data, self.labels = numpy.concatenate(pictures), numpy.concatenate(labels)
        if self.folds is not None and self.split != "test":
            with open(os.path.join(self._folder, self.folds_list_file)) as file:
                chosen = numpy.array(file.read().splitlines()[self.folds].split(), "int64")
            self.data, self.labels = self.data[chosen], self.labels[chosen]
        if self._exists(self.class_names_file):
            with open(os.path.join(self._folder, self.class_names_file)) as file:
                self.classes = file.read().splitlines()

    def _read(self, part):
        import numpy
        pixels = numpy.fromfile(os.path.join(self._folder, f"{part}_X.bin"), "uint8").reshape(-1, 3, 96, 96)
        if part == "unlabeled":
            return pixels.transpose(0, 1, 3, 2), numpy.full(len(pixels), -1)
        labels = numpy.fromfile(os.path.join(self._folder, f"{part}_y.bin"), "uint8")
        return pixels.transpose(0, 1, 3, 2), labels.astype("int64") - 1

    def __getitem__(self, index):
        pixels = self.data[index]
        image = image_module().frombytes("RGB", (96, 96), pixels.transpose(1, 2, 0).tobytes())
        return self._transformed(image, int(self.labels[index]))

    def __len__(self):
        return len(self.data)

    def extra_repr(self):
        return f"Split: {self.split}"
