"""USPS: 16 x 16 digits of envelopes, in the text form of LIBSVM."""

import bz2
import os

from flambeau.vision._pillow import image_module
from flambeau.vision.datasets.utils import download_any
from flambeau.vision.datasets.vision import VisionDataset, not_found

_SOURCE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"


class USPS(VisionDataset):
    """Digits in `root/usps.bz2` and `root/usps.t.bz2`; `data` is (count, 16, 16) bytes, `targets` a list."""

    split_list = {"train": [_SOURCE + "usps.bz2", "usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"],
                  "test": [_SOURCE + "usps.t.bz2", "usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"]}

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        url, name, md5 = self.split_list["train" if train else "test"]
        path = os.path.join(self.root, name)
        if download and not os.path.isfile(path):
            download_any([url], self.root, name, md5)
        if not os.path.isfile(path):
            not_found(self, self.root, [name], [url])
        self._load(path)

    def _load(self, path):
        import numpy
        with bz2.open(path, "rt") as file:
            rows = [line.split() for line in file]
        values = numpy.array([[field.partition(":")[2] for field in row[1:]] for row in rows], "float32")
        self.data = ((values.reshape(-1, 16, 16) + 1) / 2 * 255).astype("uint8")
        self.targets = [int(row[0]) - 1 for row in rows]

    def __getitem__(self, index):
        image = image_module().frombytes("L", (16, 16), self.data[index].tobytes())
        return self._transformed(image, self.targets[index])

    def __len__(self):
        return len(self.data)
