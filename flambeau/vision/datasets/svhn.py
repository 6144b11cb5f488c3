"""SVHN: house numbers in MATLAB files."""

import os

from flambeau.base.lazy import require
from flambeau.vision._pillow import image_module
from flambeau.vision.datasets.utils import download_any, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset, not_found

_SOURCE = "http://ufldl.stanford.edu/housenumbers/"


class SVHN(VisionDataset):
    """Digits of house numbers, 32 x 32, in `root/<split>_32x32.mat`; reading them needs SciPy.

    split: 'train', 'test' or 'extra'. `data` is an array (count, 3, 32, 32) of bytes, `labels` one of int64.
    """

    split_list = {split: [f"{_SOURCE}{split}_32x32.mat", f"{split}_32x32.mat", md5] for split, md5 in (
        ("train", "e26dedcc434d2e4c54c9b2d4a06d8373"), ("test", "eb5a983be6a315427106f1b164d9cef3"),
        ("extra", "a93ce644f1a588dc4d68dda5feec44a7"))}

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", tuple(self.split_list))
        self.url, self.filename, self.file_md5 = self.split_list[split]
        if download:
            self.download()
        path = os.path.join(self.root, self.filename)
        if not os.path.isfile(path):
            not_found(self, self.root, [self.filename], [self.url])
        import numpy
        content = require("scipy.io", extra="vision").loadmat(path)
        self.data = numpy.transpose(content["X"], (3, 2, 0, 1))
        self.labels = content["y"].astype(numpy.int64).squeeze()
        self.labels[self.labels == 10] = 0          # the files call the digit zero 10

    def __getitem__(self, index):
        pixels, target = self.data[index], int(self.labels[index])
        size = pixels.shape[2], pixels.shape[1]
        image = image_module().frombytes("RGB", size, pixels.transpose(1, 2, 0).tobytes())
        return self._transformed(image, target)

    def __len__(self):
        return len(self.data)

    def download(self):
        path = os.path.join(self.root, self.filename)
        if not os.path.isfile(path):
            download_any([self.url], self.root, self.filename, self.file_md5)

    def extra_repr(self):
        return f"Split: {self.split}"
