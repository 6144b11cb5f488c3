"""Bytes kept on disk under a key: compiled kernels outlive the process that compiled them.

What is read back may be run as machine code, so a folder is used only if nobody but its owner, who is this
user, can write there, and each entry carries a checksum over key and data. Everything else about the cache
is best effort: an entry that is damaged counts as missing, a disk that is full means one warning, a folder
that is refused means that entries live in memory. Entries are written to a temporary file and renamed, so
readers never see half of one.
"""

import hashlib
import os
import stat
import time
import warnings

from flambeau.base.flags import flags

MAGIC = b"flambeau cache 1\n"
_SUFFIX, _TEMPORARY = ".entry", ".partial"
_STALE = 3600.0     # seconds after which a temporary file belongs to a process that was killed


class Cache:
    """A folder of entries. `get`, `put`, `clear` and `size` never raise for what the disk does.

    >>> cache = Cache(None)         # None: in memory only
    >>> cache.put("a", b"data"); cache.get("a")
    b'data'
    """

    def __init__(self, folder, suffix=_SUFFIX):
        """suffix: of the files; caches of several kinds of entries may share a folder."""
        self.suffix = suffix
        self.folder = None if folder is None else os.path.realpath(os.path.expanduser(folder))
        self._memory = {}
        self._usable = None         # not looked at yet
        self._warned = False
        self._swept = False

    def get(self, key):
        """The bytes under `key` (a str), or None. A damaged entry is removed."""
        if key in self._memory:
            return self._memory[key]
        if not self._ready():
            return None
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            return None
        data = content[len(MAGIC) + 32:]
        if content.startswith(MAGIC) and content[len(MAGIC):len(MAGIC) + 32] == _checksum(key, data):
            return data
        _remove(path)
        return None

    def put(self, key, data):
        """Keep `data` under `key`. If the disk refuses, it is kept in memory, with one warning."""
        data = bytes(data)
        if self._ready():
            try:
                self._sweep()
                content = MAGIC + _checksum(key, data) + data
                atomic_write(self._path(key), lambda file: file.write(content), durable=False, private=True)
                return
            except OSError as error:
                self._warn(f"cannot write to the cache folder {self.folder}: {error.strerror or error}",
                           "make room there, or set FLAMBEAU_CACHE to another folder")
        self._memory[key] = data

    def clear(self):
        """Remove all entries, and whatever was left half written."""
        self._memory.clear()
        if self._ready():
            for path, _ in self._files(self.suffix, _TEMPORARY):
                _remove(path)

    def size(self):
        """The bytes that the entries take."""
        used = sum(map(len, self._memory.values()))
        return used + (sum(info.st_size for _, info in self._files(self.suffix)) if self._ready() else 0)

    def values(self):
        """The data of all entries, unchecked: to be shown, not to be trusted."""
        yield from self._memory.values()
        for path, _ in self._files(self.suffix) if self._ready() else ():
            try:
                with open(path, "rb") as file:
                    yield file.read()[len(MAGIC) + 32:]
            except OSError:         # removed meanwhile by another process
                continue

    def refusal(self):
        """Why the folder is not used, as a sentence, or None: for `flambeau doctor`."""
        if self.folder is None:
            return "no folder was chosen"
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            info = os.stat(self.folder)
        except OSError as error:
            return f"{self.folder} cannot be made: {error.strerror or error}"
        if info.st_uid != os.geteuid():
            return f"{self.folder} belongs to another user (number {info.st_uid})"
        if stat.S_IMODE(info.st_mode) & 0o022:
            return f"{self.folder} can be written by other users; `chmod 700` and empty it"
        return None

    def _ready(self):
        if self._usable is None:
            reason = self.refusal()
            self._usable = reason is None
            if reason is not None and self.folder is not None:
                self._warn(f"the cache folder is not used: {reason}",
                           "set FLAMBEAU_CACHE to a folder of your own")
        return self._usable

    def _warn(self, problem, hint):
        if not self._warned:
            self._warned = True
            warnings.warn(f"[cache] {problem}; compiled kernels are kept in memory\n  hint: {hint}",
                          RuntimeWarning, stacklevel=4)

    def _path(self, key):
        return os.path.join(self.folder, hashlib.sha256(key.encode()).hexdigest() + self.suffix)

    def _files(self, *endings):
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.path for entry in entries if entry.name.endswith(endings)]
        except OSError:
            return
        for path in names:
            try:
                yield path, os.stat(path)
            except OSError:         # removed meanwhile by another process
                continue

    def _sweep(self):
        """Once a process: remove what killed processes left half written."""
        if self._swept:
            return
        self._swept = True
        for path, info in self._files(_TEMPORARY):
            if time.time() - info.st_mtime > _STALE:
                _remove(path)


def _checksum(key, data):
    digest = hashlib.sha256(key.encode())
    digest.update(b"\0")
    digest.update(data)
    return digest.digest()


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def default_folder():
    """The flag `cache` (FLAMBEAU_CACHE) or ~/.cache/flambeau; None if this user has no home."""
    if flags.cache:
        return flags.cache
    folder = os.path.expanduser("~/.cache/flambeau")
    return folder if os.path.isabs(folder) else None


_DEFAULT = {}       # folder -> Cache


def default_cache():
    """The cache of this process, made at the first call (and again if the flag changes)."""
    folder = default_folder()
    if folder not in _DEFAULT:
        _DEFAULT[folder] = Cache(folder)
    return _DEFAULT[folder]


# ---------------------------------------------------------------------------------- writing a file as a whole
def atomic_write(path, writer, durable=True, private=False):
    """Write a file so that `path` holds either its old content or all of the new one, whatever happens.

    `writer(file)` gets a binary file. The temporary file stands in the same folder and is removed on any
    error, which is raised. `durable` waits until the data is on the disk. A symbolic link is followed; an
    existing file's permissions are kept, unless `private`: then only the owner may read it. What is no plain
    file (a pipe, /dev/null) is written directly.
    """
    path = os.path.realpath(os.fspath(path))
    mode = None
    if os.path.exists(path):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            _write_directly(path, writer)
            return
    folder, name = os.path.split(path)
    temporary, file = _open_temporary(folder, name, private)
    try:
        with file:
            writer(file)
            file.flush()
            if mode is not None and not private:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    if durable:
        _sync_folder(folder)


def _write_directly(path, writer):
    with open(path, "wb") as file:
        writer(file)


def _open_temporary(folder, name, private):
    """A new file beside `name`, with the permissions that this process gives new files unless `private`."""
    temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(8).hex()}{_TEMPORARY}")
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(temporary, how, 0o600 if private else 0o666)
    return temporary, os.fdopen(handle, "wb")


def _sync_folder(folder):
    """Put the rename itself on the disk, where the file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
