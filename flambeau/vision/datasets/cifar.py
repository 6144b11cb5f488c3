"""CIFAR10 and CIFAR100: 32 x 32 coloured pictures in pickles of Python."""

import os
import pickle

from flambeau.base.errors import fail
from flambeau.vision._pillow import image_module
from flambeau.vision.datasets.utils import download_and_extract_archive
from flambeau.vision.datasets.vision import RestrictedUnpickler, VisionDataset, not_found


class CIFAR10(VisionDataset):
    """60,000 pictures in ten classes, five sixths of them for training.

    Args:
        root: folder that holds `cifar-10-batches-py`.
        train: the training or the test part.
        download: fetch and unpack the archive if the files are missing.

    `data` is an array (count, 32, 32, 3) of bytes, `targets` a list of ints; a sample is (RGB picture, int).
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list = [["data_batch_1", "c99cafc152244af753f735de768cd75f"],
                  ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
                  ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
                  ["data_batch_4", "634d18415352ddfa80567beed471001a"],
                  ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"]]
    test_list = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta = {"filename": "batches.meta", "key": "label_names", "md5": "5ff9c542aee3614f3951f8cda6e48888"}

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        if not self._check_integrity():
            not_found(self, self._folder(), [*self._names(), self.meta["filename"]], [self.url])
        self._load()

    def _folder(self):
        return os.path.join(self.root, self.base_folder)

    def _names(self):
        return [name for name, _ in (*self.train_list, *self.test_list)]

    def _check_integrity(self):
        """All files are there. Their sums are not compared: what they hold is checked while it is read."""
        return all(os.path.isfile(os.path.join(self._folder(), name))
                   for name in (*self._names(), self.meta["filename"]))

    def _load(self):
        import numpy
        parts, self.targets = [], []
        for name, _ in self.train_list if self.train else self.test_list:
            entry = self._read(name)
            parts.append(numpy.asarray(entry["data"]))
            self.targets.extend(entry["labels"] if "labels" in entry else entry["fine_labels"])
        pixels = numpy.concatenate(parts).reshape(-1, 3, 32, 32)
        self.data = numpy.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        if len(self.data) != len(self.targets):
            fail(type(self).__name__, "numbers of pictures and of labels differ",
                 got=f"{len(self.data)} and {len(self.targets)}")
        self.classes = self._read(self.meta["filename"])[self.meta["key"]]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}

    def _read(self, name):
        path = os.path.join(self._folder(), name)
        try:
            with open(path, "rb") as file:
                return RestrictedUnpickler(file).load()
        except (pickle.UnpicklingError, EOFError, ValueError) as error:
            fail(type(self).__name__, f"{path} cannot be read", got=error)

    def __getitem__(self, index):
        pixels = self.data[index]
        image = image_module().frombytes("RGB", (pixels.shape[1], pixels.shape[0]), pixels.tobytes())
        target = self.targets[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __len__(self):
        return len(self.data)

    def download(self):
        """Fetch and unpack the archive if files are missing."""
        if not self._check_integrity():
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)

    def extra_repr(self):
        return f"Split: {'Train' if self.train is True else 'Test'}"


class CIFAR100(CIFAR10):
    """60,000 pictures in a hundred classes; `root` holds `cifar-100-python`."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48"}
