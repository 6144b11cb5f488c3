"""MNIST and its kin: 28 x 28 grey pictures in idx files, `root/<class>/raw/...-ubyte`, packed (.gz) or
not.
"""

import os
import string
import warnings

from flambeau.base.errors import fail
from flambeau.tensor import from_numpy
from flambeau.vision._pillow import image_module
from flambeau.vision.datasets.utils import download_any, extract_archive, open_packed, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset, not_found

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


class MNIST(VisionDataset):
    """Handwritten digits: 60,000 for training and 10,000 for testing.

    Args:
        root: folder that holds `MNIST/raw/train-images-idx3-ubyte` and the three other files.
        train: the training or the test part.
        download: fetch the files if they are missing.

    `data` is (count, 28, 28) uint8, `targets` (count,) int64; a sample is (picture of mode L, int).
    """

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = [("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                 ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
                 ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
                 ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c")]
    training_file, test_file = "training.pt", "test.pt"
    classes = ["0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven",
               "8 - eight", "9 - nine"]

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        if not self._check_exists():
            not_found(self, self.raw_folder, self._files(), [self.mirrors[0] + name for name,
                                                             _ in self.resources])
        self.data, self.targets = self._load_data()
        if len(self.data) != len(self.targets):
            fail(type(self).__name__, "numbers of pictures and of labels differ",
                 got=f"{len(self.data)} and {len(self.targets)} in {self.raw_folder}")

    def _files(self):
        """Names, without .gz, of the files that must be there."""
        return [os.path.splitext(name)[0] for name, _ in self.resources]

    def _check_exists(self):
        return all(self._present(name) for name in self._files())

    def _present(self, name):
        """The path of the unpacked or packed file, or None."""
        paths = (os.path.join(self.raw_folder, name + ending) for ending in ("", ".gz", ".xz"))
        return next(filter(os.path.isfile, paths), None)

    def _part(self):
        return "train" if self.train else "t10k"

    def _load_data(self):
        images = read_image_file(self._present(f"{self._part()}-images-idx3-ubyte"))
        return images, read_label_file(self._present(f"{self._part()}-labels-idx1-ubyte"))

    def __getitem__(self, index):
        row = self._rows()[index]
        size = row.shape
        image = image_module().frombytes("L", (size[1], size[0]), row.tobytes())
        target = self.targets[index].item()
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def _rows(self):
        """`data` as an array; it shares the memory, and is made again when `data` is replaced."""
        kept = self.__dict__.get("_array")
        if kept is None or kept[0] is not self.data:
            kept = self._array = (self.data, self.data.numpy())
        return kept[1]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_array"}

    def __len__(self):
        return len(self.data)

    @property
    def raw_folder(self):
        """Where the files lie."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self):
        """Where older versions of torchvision kept what they had read."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self):
        """The number of each class, by its name."""
        return {name: index for index, name in enumerate(self.classes)}

    def download(self):
        """Fetch the files that are missing."""
        if self._check_exists():
            return
        for name, md5 in self.resources:
            download_any([mirror + name for mirror in self.mirrors], self.raw_folder, name, md5)
            extract_archive(os.path.join(self.raw_folder, name), self.raw_folder)

    def extra_repr(self):
        return f"Split: {'Train' if self.train is True else 'Test'}"

    def _old_name(new, old):
        def get(self):
            warnings.warn(f"{old} has been renamed {new}", stacklevel=2)
            return getattr(self, new)
        return property(get, doc=f"The old name of `{new}`.")

    train_labels, test_labels = _old_name("targets", "train_labels"), _old_name("targets", "test_labels")
    train_data, test_data = _old_name("data", "train_data"), _old_name("data", "test_data")
    del _old_name


class FashionMNIST(MNIST):
    """Pieces of clothing in the form of MNIST, in `root/FashionMNIST/raw`."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                 ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                 ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                 ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310")]
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
               "Ankle boot"]


class KMNIST(MNIST):
    """Ten characters of cursive Japanese in the form of MNIST, in `root/KMNIST/raw`."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
                 ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
                 ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
                 ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134")]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


_MERGED = set("cijklmopsuvwxyz")            # letters whose two cases share a class in some splits
_ALL = list(string.digits + string.ascii_letters.swapcase())


class EMNIST(MNIST):
    """Handwritten letters and digits, in `root/EMNIST/raw/emnist-<split>-...`.

    split: 'byclass', 'bymerge', 'balanced', 'letters', 'digits' or 'mnist'.
    """

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    md5 = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    _merged_classes = _MERGED
    _all_classes = set(_ALL)
    classes_split_dict = {
        "byclass": sorted(_ALL),
        "bymerge": sorted(set(_ALL) - _MERGED),
        "balanced": sorted(set(_ALL) - _MERGED),
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root, split, **kwargs):
        self.split = verify_str_arg(split, "split", self.splits)
        self.training_file, self.test_file = f"training_{split}.pt", f"test_{split}.pt"
        self.mirrors, self.resources = [self.url.removesuffix("gzip.zip")], [("gzip.zip", self.md5)]
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[split]

    def _files(self):
        return [f"emnist-{self.split}-{part}-{kind}-ubyte" for part in ("train", "test")
                for kind in ("images-idx3", "labels-idx1")]

    def _load_data(self):
        start = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return (read_image_file(self._present(f"{start}-images-idx3-ubyte")),
                read_label_file(self._present(f"{start}-labels-idx1-ubyte")))

    def download(self):
        if self._check_exists():
            return
        download_any([self.url], self.raw_folder, "gzip.zip", self.md5)
        extract_archive(os.path.join(self.raw_folder, "gzip.zip"), self.raw_folder)
        inner = os.path.join(self.raw_folder, "gzip")
        for name in os.listdir(inner):
            if name.endswith(".gz"):
                extract_archive(os.path.join(inner, name), self.raw_folder)


_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"


class QMNIST(MNIST):
    """MNIST rebuilt, with its writers, in `root/QMNIST/raw/qmnist-...`.

    what: 'train', 'test', 'test10k', 'test50k' or 'nist'; compat: labels are the digit, otherwise the eight
    numbers of the extended labels.
    """

    subsets = {"train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist"}
    resources = {
        "train": [(f"{_QMNIST}qmnist-train-images-idx3-ubyte.gz", "ed72d4157d28c017586c42bc6afe6370"),
                  (f"{_QMNIST}qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4")],
        "test": [(f"{_QMNIST}qmnist-test-images-idx3-ubyte.gz", "1394631089c404de565df7b7aeaf9412"),
                 (f"{_QMNIST}qmnist-test-labels-idx2-int.gz", "5b5b05890a5e13444e108efe57b788aa")],
        "nist": [(f"{_QMNIST}xnist-images-idx3-ubyte.xz", "7f124b3b8ab81486c9d8c2749c17f834"),
                 (f"{_QMNIST}xnist-labels-idx2-int.xz", "5ed0e788978e45d4a8bd4b7caec3d79d")]}

    def __init__(self, root, what=None, compat=True, train=True, **kwargs):
        self.what = verify_str_arg(what or ("train" if train else "test"), "what", tuple(self.subsets))
        self.compat = compat
        self._sources = self.resources[self.subsets[self.what]]
        self.mirrors, self.resources = [""], self._sources
        super().__init__(root, train, **kwargs)

    def _files(self):
        return [os.path.splitext(os.path.basename(url))[0] for url, _ in self._sources]

    def _load_data(self):
        images, labels = map(self._present, self._files())
        images, labels = read_sn3_pascalvincent_tensor(images), read_sn3_pascalvincent_tensor(labels).long()
        first, last = {"test10k": (0, 10000), "test50k": (10000, 60000)}.get(self.what, (0, len(images)))
        return images[first:last].clone(), labels[first:last].clone()

    def __getitem__(self, index):
        row = self._rows()[index]
        image = image_module().frombytes("L", row.shape[::-1], row.tobytes())
        target = self.targets[index]
        if self.compat:
            target = int(target[0])
        return self._transformed(image, target)

    def download(self):
        for (url, md5), name in zip(self._sources, self._files()):
            if not self._present(name):
                download_any([url], self.raw_folder, os.path.basename(url), md5)

    def extra_repr(self):
        return f"Split: {self.what}"


def read_sn3_pascalvincent_tensor(path, strict=True):
    """The array of an idx file as a tensor."""
    import numpy
    with open_packed(path) as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES or not content[3]:
        fail("idx", f"{path} is not an idx file", got=f"it begins with {content[:4]!r}", kind=ValueError)
    kind, axes = numpy.dtype(_IDX_TYPES[content[2]]), content[3]
    head = 4 + 4 * axes
    if len(content) < head:
        fail("idx", f"{path} is cut off", got=f"{len(content)} bytes", want=f"at least {head}",
             kind=ValueError)
    sizes = [int(size) for size in numpy.frombuffer(content, ">i4", axes, 4)]
    wanted = head + kind.itemsize * int(numpy.prod(sizes))
    if len(content) < wanted or strict and len(content) != wanted:
        fail("idx", f"{path} is not as long as its header says", got=f"{len(content)} bytes",
             want=f"{wanted} for {sizes}", kind=ValueError)
    values = numpy.frombuffer(content, kind, offset=head, count=int(numpy.prod(sizes)))
    return from_numpy(values.astype(kind.newbyteorder("="), copy=True).reshape(sizes))


def read_label_file(path):
    """(count,) int64."""
    return read_sn3_pascalvincent_tensor(path, strict=False).long()


def read_image_file(path):
    """(count, height, width) uint8."""
    return read_sn3_pascalvincent_tensor(path, strict=False)
