"""ImageNet, unpacked: `root/train/<wnid>/*.JPEG` and `root/val/<wnid>/*.JPEG`."""

import os

from flambeau.base.errors import fail
from flambeau.vision.datasets.folder import ImageFolder
from flambeau.vision.datasets.utils import verify_str_arg


class ImageNet(ImageFolder):
    """The folders of ILSVRC 2012, one a WordNet number; it has to be fetched and unpacked by hand.

    split: 'train' or 'val'. `wnids` are the folders' names. `classes` are tuples of words if `meta.bin` is
    beside the folders (torchvision writes it), otherwise the folders' names.
    """

    def __init__(self, root, split="train", **kwargs):
        self.split = verify_str_arg(split, "split", ("train", "val"))
        folder = os.path.join(os.path.expanduser(root), split)
        if not os.path.isdir(folder):
            fail("ImageNet", "the unpacked folders are missing",
                 want=f"{os.path.abspath(folder)}/<wnid>/*.JPEG",
                 hint="unpack ILSVRC2012_img_train.tar and _val.tar of https://image-net.org there",
                 kind=FileNotFoundError)
        super().__init__(folder, **kwargs)
        self.split_folder, self.root = folder, os.path.expanduser(root)
        self.wnids, self.wnid_to_idx = self.classes, self.class_to_idx
        self._name_classes()

    def _name_classes(self):
        path = os.path.join(self.root, "meta.bin")
        if not os.path.isfile(path):
            return
        from flambeau.tensor import load
        words = load(path)[0]
        self.classes = [words[wnid] for wnid in self.wnids]
        self.class_to_idx = {word: index for index, names in enumerate(self.classes) for word in names}

    def extra_repr(self):
        return f"Split: {self.split}"
