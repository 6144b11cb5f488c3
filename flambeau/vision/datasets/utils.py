"""Fetching files, checking them, unpacking them."""

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile

from flambeau.base.errors import fail

_AGENT = {"User-Agent": "flambeau"}
_OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_BLOCK = 1 << 20


def calculate_md5(fpath, chunk_size=_BLOCK):
    """The MD5 sum of a file, as text."""
    total = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while block := file.read(chunk_size):
            total.update(block)
    return total.hexdigest()


def check_md5(fpath, md5, **kwargs):
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath, md5=None):
    """True if the file is there and, if `md5` is given, has that sum."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(url, root, filename=None, md5=None, max_redirect_hops=3):
    """Fetch `url` into the folder `root`, unless the file is there with the sum `md5`.

    The file appears under its name only when it is complete and has its sum.
    """
    root = os.path.expanduser(root)
    path = os.path.join(root, filename or os.path.basename(url))
    if check_integrity(path, md5):
        return
    os.makedirs(root, exist_ok=True)
    part = f"{path}.{os.getpid()}.part"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=_AGENT), timeout=30) as answer, \
                open(part, "wb") as file:
            shutil.copyfileobj(answer, file, _BLOCK)
        if not check_integrity(part, md5):
            raise RuntimeError(f"File not found or corrupted: {url} gave another MD5 sum than {md5}")
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def download_any(urls, root, filename, md5=None):
    """Fetch the file from the first of `urls` that answers; the error names the path that it should get."""
    problems = []
    for url in urls:
        try:
            return download_url(url, root, filename, md5)
        except (OSError, RuntimeError) as error:
            problems.append(f"{url}: {getattr(error, 'reason', error)}")
    fail("download", f"cannot fetch {filename}", got="; ".join(problems),
         want=f"the file {os.path.join(os.path.abspath(root), filename)}",
         hint="without a network, fetch it elsewhere and put it there", kind=RuntimeError)


def extract_archive(from_path, to_path=None, remove_finished=False):
    """Unpack a .zip or .tar archive, or a single compressed file; return where."""
    from_path = os.fspath(from_path)
    to_path = os.fspath(to_path) if to_path is not None else os.path.dirname(from_path)
    stem, ending = os.path.splitext(from_path)
    if zipfile.is_zipfile(from_path):
        with zipfile.ZipFile(from_path) as archive:
            archive.extractall(to_path)
    elif tarfile.is_tarfile(from_path):
        with tarfile.open(from_path) as archive:
            archive.extractall(to_path, filter="data")
    elif ending in _OPENERS:
        if os.path.isdir(to_path):
            to_path = os.path.join(to_path, os.path.basename(stem))
        with _OPENERS[ending](from_path, "rb") as packed, open(to_path, "wb") as file:
            shutil.copyfileobj(packed, file, _BLOCK)
    else:
        raise RuntimeError(f"Unknown compression or archive type: '{ending}'")
    if remove_finished:
        os.remove(from_path)
    return to_path


def download_and_extract_archive(url, download_root, extract_root=None, filename=None, md5=None,
                                 remove_finished=False):
    """Fetch an archive into `download_root` and unpack it there or in `extract_root`."""
    filename = filename or os.path.basename(url)
    download_any([url], download_root, filename, md5)
    extract_archive(os.path.join(download_root, filename), extract_root or download_root, remove_finished)


def open_packed(path):
    """A binary file, unpacked while it is read if its name says so."""
    return _OPENERS.get(os.path.splitext(path)[1], open)(path, "rb")


def list_dir(root, prefix=False):
    """The folders in `root`."""
    return _listed(root, prefix, os.path.isdir)


def list_files(root, suffix, prefix=False):
    """The files in `root` whose names end in `suffix`."""
    return [name for name in _listed(root, prefix, os.path.isfile) if name.endswith(suffix)]


def _listed(root, prefix, wanted):
    root = os.path.expanduser(root)
    found = [name for name in os.listdir(root) if wanted(os.path.join(root, name))]
    return [os.path.join(root, name) for name in found] if prefix else found


def verify_str_arg(value, arg=None, valid_values=None, custom_msg=None):
    """`value` if it is one of `valid_values`; otherwise ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"Expected type str for argument {arg}, but got type {type(value)}.")
    if valid_values is not None and value not in valid_values:
        listed = ", ".join(repr(known) for known in valid_values)
        raise ValueError(custom_msg
                         or f"Unknown value '{value}' for argument {arg}. Valid values are {{{listed}}}.")
    return value
