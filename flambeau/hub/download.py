"""Files from URLs, kept in a folder that PyTorch's programs share."""

import hashlib
import os
import re
import sys
import tempfile
from urllib.parse import urlparse

__all__ = ["HASH_REGEX", "download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # name-<first digits of the SHA-256>.ext
_PIECE = 1 << 17
_chosen = None


def home():
    """The folder of everything that is kept: $TORCH_HOME, else torch in the user's folder of caches."""
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(caches, "torch")))


def get_dir():
    """The folder of repositories and weights: what `set_dir` said, else `hub` in $TORCH_HOME or
    ~/.cache/torch."""
    return os.path.join(home(), "hub") if _chosen is None else _chosen


def set_dir(d):
    """Keep repositories and weights in the folder `d` from now on."""
    global _chosen
    _chosen = os.path.expanduser(os.fspath(d))


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Fetch `url` into the file `dst`, which appears when it is whole.

    Args:
        hash_prefix: what the SHA-256 of the content begins with; RuntimeError if it does not.
        progress: show on stderr how far it is, if that is a terminal.

    Raises:
        urllib.error.URLError: the URL cannot be reached.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, target = pathlib.Path(folder, "a.txt"), pathlib.Path(folder, "b.txt")
    ...     _ = source.write_text("weights")
    ...     download_url_to_file(source.as_uri(), target)
    ...     target.read_text()
    'weights'
    """
    from urllib.request import Request, urlopen

    dst = os.path.expanduser(os.fspath(dst))
    with urlopen(Request(url, headers={"User-Agent": "flambeau.hub"})) as source:
        handle, partial = tempfile.mkstemp(
            prefix=os.path.basename(dst) + ".", suffix=".partial", dir=os.path.dirname(os.path.abspath(dst))
        )
        try:
            with os.fdopen(handle, "wb") as target:
                found = _copy(source, target, progress and sys.stderr.isatty())
            if hash_prefix is not None and found[: len(hash_prefix)] != hash_prefix:
                raise RuntimeError(
                    f'[download_url_to_file] invalid hash value (expected "{hash_prefix}", got "{found}")'
                    f"\n  hint: {url} holds something else now, or the transfer was damaged"
                )
            os.chmod(partial, 0o666 & ~_umask())
            os.replace(partial, dst)
        except BaseException:
            os.unlink(partial)
            raise


def _copy(source, target, shown):
    """The SHA-256 of what was copied."""
    total = int(source.headers.get("Content-Length") or 0)
    digest, done = hashlib.sha256(), 0
    while piece := source.read(_PIECE):
        target.write(piece)
        digest.update(piece)
        done += len(piece)
        if shown:
            share = f" ({done / total:.0%})" if total else ""
            print(f"\r{done / 1e6:.1f} MB{share}", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)
    return digest.hexdigest()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load_state_dict_from_url(
    url,
    model_dir=None,
    map_location=None,
    progress=True,
    check_hash=False,
    file_name=None,
    weights_only=False,
):
    """The content of a file of weights, fetched if it is not in the folder yet.

    Args:
        model_dir: the folder; None: `checkpoints` in `get_dir()`.
        map_location, weights_only: as of `load`.
        check_hash: the file's name ends in -<digits of its SHA-256>, and these must fit.
        file_name: its name in the folder; None: the URL's.
    """
    from flambeau.tensor.save import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        found = HASH_REGEX.search(name) if check_hash else None
        print(f'Downloading: "{url}" to {path}', file=sys.stderr)
        try:
            download_url_to_file(url, path, found and found[1], progress)
        except OSError as error:
            error.add_note(f"  hint: put the file there yourself: {path}")
            raise
    return load(path, map_location=map_location, weights_only=weights_only)
