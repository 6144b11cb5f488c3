"""Folders of files, one folder a class."""

import os

from flambeau.base.errors import fail
from flambeau.vision._pillow import image_module
from flambeau.vision.datasets.vision import VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename, extensions):
    """True if the name ends in one of `extensions`, in any case."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename):
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory):
    """(names of the folders in order, name -> number)."""
    with os.scandir(directory) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: index for index, name in enumerate(classes)}


def make_dataset(directory, class_to_idx=None, extensions=None, is_valid_file=None, allow_empty=False):
    """The samples [(path, class number), ...] below `directory`, in the order of the classes and of the
    paths.
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")

    def accepts(path):
        return has_file_allowed_extension(path, extensions) if extensions is not None else is_valid_file(path)

    samples, empty = [], []
    for name in sorted(class_to_idx):
        found = [(path, class_to_idx[name]) for path in _files_below(os.path.join(directory, name))
                 if accepts(path)]
        samples += found
        if not found:
            empty.append(name)
    if empty and not allow_empty:
        problem = f"Found no valid file for the classes {', '.join(empty)}."
        if extensions is not None:
            listed = extensions if isinstance(extensions, str) else ", ".join(extensions)
            problem += f" Supported extensions are: {listed}"
        raise FileNotFoundError(problem)
    return samples


def _files_below(folder):
    for place, _, names in sorted(os.walk(folder, followlinks=True)):
        for name in sorted(names):
            yield os.path.join(place, name)


class DatasetFolder(VisionDataset):
    """Samples in `root/<class>/**`, read by `loader(path)`.

    extensions: endings of the files that count; or is_valid_file: a function of the path that says so.
    `samples` is a list of (path, class number), `targets` the numbers.
    """

    def __init__(self, root, loader, extensions=None, transform=None, target_transform=None,
                 is_valid_file=None, allow_empty=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        if not os.path.isdir(self.root):
            fail(type(self).__name__, "the folder of the classes is missing",
                 want=f"{os.path.abspath(self.root)}/<class>/<file>", kind=FileNotFoundError)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False):
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory):
        return find_classes(directory)

    def __getitem__(self, index):
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self):
        return len(self.samples)


def pil_loader(path):
    """The picture in the file, as RGB."""
    with open(path, "rb") as file:
        return image_module().open(file).convert("RGB")


def default_loader(path):
    return pil_loader(path)


class ImageFolder(DatasetFolder):
    """Pictures in `root/<class>/**`; a sample is (RGB picture, class number).

    >>> import os, tempfile
    >>> from flambeau.vision.io import write_png
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("cat", "dog"):
    ...         os.mkdir(os.path.join(root, name))
    ...         write_png(fl.zeros(3, 4, 4, dtype=fl.uint8), os.path.join(root, name, "1.png"))
    ...     data = ImageFolder(root)
    ...     len(data), data.classes, data[1]
    (2, ['cat', 'dog'], (<PIL.Image.Image image mode=RGB size=4x4 ...>, 1))
    """

    def __init__(self, root, transform=None, target_transform=None, loader=default_loader, is_valid_file=None,
                 allow_empty=False):
        super().__init__(root, loader, None if is_valid_file else IMG_EXTENSIONS, transform, target_transform,
                         is_valid_file, allow_empty)
        self.imgs = self.samples
