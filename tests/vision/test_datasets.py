"""Datasets: files written here in the published formats, read back; missing and damaged files."""

import gzip
import pickle
import struct

import numpy
import pytest
from PIL import Image

import flambeau as fl
from flambeau.data import DataLoader
from flambeau.tensor.rng import using_stream
from flambeau.vision import datasets, transforms

RANDOM = numpy.random.RandomState(0)
IMAGES, LABELS = RANDOM.randint(0, 256, (12, 28, 28)).astype("uint8"), RANDOM.randint(0, 10,
                                                                                      12).astype("uint8")


def idx(values, kind=8):
    head = struct.pack(">BBBB", 0, 0, kind, values.ndim) + struct.pack(f">{values.ndim}i", *values.shape)
    return head + values.tobytes()


def write_mnist(root, name="MNIST", packed=False):
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    for part, some in (("train", slice(None)), ("t10k", slice(5))):
        for file, values in ((f"{part}-images-idx3-ubyte", IMAGES[some]),
                             (f"{part}-labels-idx1-ubyte", LABELS[some])):
            if packed:
                (folder / (file + ".gz")).write_bytes(gzip.compress(idx(values)))
            else:
                (folder / file).write_bytes(idx(values))
    return folder


@pytest.mark.parametrize("name, packed", [("MNIST", False), ("MNIST", True), ("FashionMNIST", False),
                                          ("KMNIST", True)])
def test_mnist_and_its_kin(tmp_path, name, packed):
    write_mnist(tmp_path, name, packed)
    # nothing is missing, nothing is fetched
    data = getattr(datasets, name)(str(tmp_path), download=True)
    assert len(data) == 12 and data.data.dtype == fl.uint8 and data.targets.tolist() == LABELS.tolist()
    picture, label = data[3]
    assert numpy.array_equal(numpy.asarray(picture), IMAGES[3]) and label == LABELS[3] and type(label) is int
    assert len(data.classes) == 10 and data.class_to_idx[data.classes[4]] == 4
    test = getattr(datasets, name)(tmp_path, train=False, transform=transforms.ToTensor(),
                                   target_transform=lambda label: label + 100)
    assert test[2][0].shape == (1, 28, 28) and test[2][1] == LABELS[2] + 100
    test.data = test.data + 1                           # programs replace the pictures
    assert numpy.array_equal(test[0][0].numpy()[0] * 255, (IMAGES[0] + 1).astype("f"))
    assert len(pickle.loads(pickle.dumps(data))) == 12


def test_text_of_a_dataset(tmp_path):
    write_mnist(tmp_path)
    data = datasets.MNIST(str(tmp_path), transform=transforms.Compose([transforms.ToTensor()]))
    assert repr(data) == f"""Dataset MNIST
    Number of datapoints: 12
    Root location: {tmp_path}
    Split: Train
    StandardTransform
Transform: Compose(
               ToTensor()
           )"""


def test_batches_from_worker_processes(tmp_path):
    write_mnist(tmp_path)
    data = datasets.MNIST(str(tmp_path), transform=transforms.ToTensor())
    batches = list(DataLoader(data, batch_size=5, num_workers=2))
    assert [tuple(images.shape) for images, _ in batches] == [(5, 1, 28, 28), (5, 1, 28, 28), (2, 1, 28, 28)]
    assert batches[0][1].tolist() == LABELS[:5].tolist()


def test_emnist_and_qmnist(tmp_path):
    folder = tmp_path / "EMNIST" / "raw"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        (folder / f"emnist-letters-{part}-images-idx3-ubyte").write_bytes(idx(IMAGES))
        (folder / f"emnist-letters-{part}-labels-idx1-ubyte").write_bytes(idx(LABELS))
    assert datasets.EMNIST(str(tmp_path), "letters").classes[1] == "a"
    with pytest.raises(ValueError, match="Unknown value 'x' for argument split"):
        datasets.EMNIST(str(tmp_path), "x")
    folder = tmp_path / "QMNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "qmnist-train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    extended = numpy.arange(96, dtype=">i4").reshape(12, 8)
    (folder / "qmnist-train-labels-idx2-int").write_bytes(idx(extended, 12))
    assert datasets.QMNIST(str(tmp_path), "train")[2][1] == 16
    assert datasets.QMNIST(str(tmp_path), "train", compat=False)[1][1].tolist() == list(range(8, 16))


@pytest.mark.parametrize("make, path, name", [
    (lambda root: datasets.MNIST(root), "MNIST/raw", "train-images-idx3-ubyte"),
    (lambda root: datasets.CIFAR10(root), "cifar-10-batches-py", "data_batch_1"),
    (lambda root: datasets.CIFAR100(root), "cifar-100-python", "fine_label_names"),
    (lambda root: datasets.STL10(root), "stl10_binary", "train_X.bin"),
    (lambda root: datasets.SVHN(root), "", "train_32x32.mat"),
    (lambda root: datasets.USPS(root), "", "usps.bz2"),
    (lambda root: datasets.EMNIST(root, "digits"), "EMNIST/raw", "emnist-digits-train-images-idx3-ubyte")])
def test_missing_files_are_named_with_their_place(tmp_path, make, path, name):
    with pytest.raises(RuntimeError, match="You can use download=True to download it") as caught:
        make(str(tmp_path))
    text = str(caught.value)
    assert str(tmp_path / path) in text and "http" in text
    assert name in text or name == "fine_label_names" and "train, test, meta" in text


def test_download_says_what_to_do_without_a_network(tmp_path, monkeypatch):
    import urllib.error

    from flambeau.vision.datasets import utils

    def unreachable(*args, **options):
        raise urllib.error.URLError("no network")
    monkeypatch.setattr(utils.urllib.request, "urlopen", unreachable)
    with pytest.raises(RuntimeError, match="no network") as caught:
        datasets.MNIST(str(tmp_path), download=True)
    assert str(tmp_path / "MNIST/raw/train-images-idx3-ubyte.gz") in str(caught.value)
    assert not list(tmp_path.rglob("*.part"))


def test_a_download_is_checked(tmp_path):
    from flambeau.vision.datasets import utils
    source = tmp_path / "source.bin"
    source.write_bytes(b"hello")
    where = tmp_path / "to"
    with pytest.raises(RuntimeError, match="MD5"):
        utils.download_url(source.as_uri(), str(where), "a.bin", md5="0" * 32)
    assert not list(where.iterdir())
    utils.download_url(source.as_uri(), str(where), "a.bin", md5="5d41402abc4b2a76b9719d911017c592")
    assert (where / "a.bin").read_bytes() == b"hello"


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"\1" + data[1:], lambda data: b"",
                                    lambda data: data[:9]])
def test_damaged_idx_files_are_refused(tmp_path, damage):
    folder = write_mnist(tmp_path)
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match="idx"):
        datasets.MNIST(str(tmp_path))


def write_cifar(root, fine=False):
    folder = root / ("cifar-100-python" if fine else "cifar-10-batches-py")
    folder.mkdir(parents=True)
    names = ["train", "test"] if fine else [*(f"data_batch_{part}" for part in range(1, 6)), "test_batch"]
    pixels = RANDOM.randint(0, 256, (len(names), 4, 3072)).astype("uint8")
    for name, data in zip(names, pixels):
        entry = {"data": data, "fine_labels" if fine else "labels": [0, 1, 2, 3], "filenames": ["a.png"] * 4}
        (folder / name).write_bytes(pickle.dumps(entry, protocol=2))
    key = "fine_label_names" if fine else "label_names"
    (folder / ("meta" if fine else "batches.meta")).write_bytes(pickle.dumps({key: ["cat", "dog", "owl",
                                                                                    "eel"]}))
    return folder, pixels


@pytest.mark.parametrize("fine", [False, True])
def test_cifar(tmp_path, fine):
    _, pixels = write_cifar(tmp_path, fine)
    data = (datasets.CIFAR100 if fine else datasets.CIFAR10)(str(tmp_path))
    assert len(data) == (4 if fine else 20) and data.data.shape[1:] == (32, 32, 3)
    picture, label = data[2]
    assert numpy.array_equal(numpy.asarray(picture).transpose(2, 0, 1).ravel(), pixels[0, 2]) and label == 2
    assert data.classes[1] == "dog" and data.class_to_idx["eel"] == 3


def test_a_pickle_that_names_other_things_runs_no_code(tmp_path):
    folder, _ = write_cifar(tmp_path)
    witness = tmp_path / "witness"
    for text in (f"cposix\nsystem\n(S'touch {witness}'\ntR.",
                 f"cbuiltins\nexec\n(S'open({str(witness)!r}, \"w\")'\ntR.",
                 "cnumpy.core.multiarray\nfromfile\n.", "garbage"):
        (folder / "data_batch_2").write_bytes(text.encode())
        with pytest.raises(RuntimeError, match="data_batch_2 cannot be read"):
            datasets.CIFAR10(str(tmp_path))
    assert not witness.exists()


def test_stl10_svhn_and_usps(tmp_path):
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    pixels = RANDOM.randint(0, 256, (3, 3, 96, 96)).astype("uint8")
    (folder / "train_X.bin").write_bytes(pixels.transpose(0, 1, 3, 2).tobytes())
    (folder / "train_y.bin").write_bytes(bytes([1, 2, 10]))
    data = datasets.STL10(str(tmp_path))
    assert data[2][1] == 9 and numpy.array_equal(numpy.asarray(data[1][0]), pixels[1].transpose(1, 2, 0))
    io = pytest.importorskip("scipy.io")
    small = RANDOM.randint(0, 256, (32, 32, 3, 2)).astype("uint8")
    io.savemat(tmp_path / "test_32x32.mat", {"X": small, "y": numpy.array([[10], [3]], "uint8")})
    data = datasets.SVHN(str(tmp_path), "test")
    assert [label for _, label in (data[0], data[1])] == [0, 3]
    assert numpy.array_equal(numpy.asarray(data[1][0]), small[..., 1])
    import bz2
    row = "3 " + " ".join(f"{place}:{-1 if place % 2 else 1}" for place in range(1, 257))
    (tmp_path / "usps.bz2").write_bytes(bz2.compress((row + "\n").encode()))
    picture, label = datasets.USPS(str(tmp_path))[0]
    assert label == 2 and picture.size == (16, 16) and picture.getpixel((1, 0)) == 255


def test_folders(tmp_path):
    for name, color in (("dog/b.png", 2), ("dog/a.PNG", 1), ("cat/deep/c.jpg", 3), ("cat/notes.txt", None)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if color is None:
            path.write_text("no picture")
        else:
            Image.new("L", (4, 5), color).save(path)
    data = datasets.ImageFolder(str(tmp_path), transforms.ToTensor())
    assert data.classes == ["cat", "dog"] and data.targets == [0, 1, 1]
    assert [path[-5:] for path, _ in data.imgs] == ["c.jpg", "a.PNG", "b.png"]
    assert data[2][0].shape == (3, 5, 4) and data[2][1] == 1
    texts = datasets.DatasetFolder(str(tmp_path), lambda path: open(path).read(), extensions=(".txt",),
                                   allow_empty=True)
    assert texts[0] == ("no picture", 0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the classes empty"):
        datasets.ImageFolder(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="<class>/<file>"):
        datasets.ImageFolder(str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="<wnid>"):
        datasets.ImageNet(str(tmp_path), "val")


def test_fake_data_is_torchvisions():
    data = datasets.FakeData(3, (1, 2, 3))
    with using_stream("pytorch"):
        state = fl.get_rng_state()
        found = [(numpy.asarray(picture).ravel().tolist(), label) for picture,
                 label in (data[i] for i in range(3))]
        assert fl.equal(state, fl.get_rng_state())
    assert found == [([136, 182, 213, 144, 236, 156], 6), ([168, 68, 15, 158, 141, 214], 6),
                     ([100, 199, 175, 205, 10, 95], 9)]
    with pytest.raises(IndexError):
        data[3]


def test_a_dataset_that_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="torchvision.datasets.CelebA is not supported"):
        datasets.CelebA
    assert not hasattr(datasets, "Nothing")
