"""Kernel -> address: LLVM text, the cache of objects, the loader. The door from the compiler to the runtime.

    address, data = load_kernel(kernel)

The cache key is the hash of the LLVM text, the target and this package's object version, so an object is
found again by what it does, whatever process made it. An entry that cannot be loaded is compiled anew.
"""

import functools
import hashlib
import pathlib
import os
import threading
import time
from dataclasses import dataclass

from flambeau.base.cache import default_cache
from flambeau.base.flags import flags
from flambeau.compiler import llvm, target as targets
from flambeau.ir.loops_text import show

OBJECT_VERSION = "2"        # raise when compile_text turns the same text into something else

_LOCK = threading.Lock()
_LOADED = {}                # key -> (address, object bytes)
_PACKS = []                 # functions key -> object bytes or None
_COUNTS = {"compiled": 0, "from_cache": 0, "seconds": 0.0}
_IN_PROGRESS = {}           # key -> lock, so that no kernel is compiled twice at once


@dataclass(frozen=True)
class Statistics:
    """What this process did: kernels compiled, kernels taken from the cache, and the seconds for both."""

    compiled: int
    from_cache: int
    seconds: float


def add_pack(get):
    """Look objects up in `get` (key -> bytes or None) too: the kernels that came with the installation."""
    _PACKS.append(get)


def remove_pack(get):
    """Forget a function that was given to `add_pack`."""
    _PACKS.remove(get)


def forget():
    """Forget which kernels are loaded (they stay mapped): the next call looks into the cache again."""
    with _LOCK:
        _LOADED.clear()


def _renew_locks():
    """In a forked child: other threads of the parent may have held them."""
    global _LOCK
    _LOCK = threading.Lock()
    _IN_PROGRESS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def statistics():
    """The counters so far, as a `Statistics`."""
    with _LOCK:
        return Statistics(**_COUNTS)


def load_kernel(kernel, target=None):
    """(address of the native function, object bytes) of `kernel`; compiled at the first call only.

    The address is valid as long as the process lives. Safe to call from any thread. Raises what `llvm.emit`
    and `jit.compile_text` raise.
    """
    target = target or targets.current()
    text = llvm.emit(kernel, target)
    return load_by_key(object_key(text, target), kernel.name, lambda: text, target)


def load_unlowered(kernel, lower):
    """The same for a kernel before the loop stages: `lower(kernel)` runs only if no cache has the object."""
    target = targets.current()
    return load_by_key(unlowered_key(kernel), kernel.name, lambda: llvm.emit(lower(kernel), target), target)


def unlowered_key(kernel):
    """The name of the object of a kernel before the loop stages."""
    return object_key(source_fingerprint() + show(kernel), targets.current())


def load_known(key, name):
    """The address of function `name` of the object under `key`; LookupError where no cache has it."""
    return load_by_key(key, name, _unknown, targets.current())[0]


def _unknown():
    raise LookupError("no cache has the object")


def places():
    """The functions key -> bytes or None to ask in turn: the cache, then the packs."""
    return [default_cache().get, *([] if flags.no_pack else [installed_pack().get, *_PACKS])]


def load_by_key(key, name, make_text, target):
    """The object stored under `key`, or else made from the LLVM text that `make_text()` returns."""
    began = time.perf_counter()
    with _LOCK:
        found = _LOADED.get(key)
        if found is not None:
            return found
        turn = _IN_PROGRESS.setdefault(key, threading.Lock())
    with turn:
        found = _LOADED.get(key)
        if found is None:
            found, source = _load(key, make_text, name, target)
            with _LOCK:
                _LOADED[key] = found
                _IN_PROGRESS.pop(key, None)
                _COUNTS[source] += 1
                _COUNTS["seconds"] += time.perf_counter() - began
    return found


@functools.cache
def source_fingerprint():
    """A hash of the code that turns Loops into LLVM text: what is cached by Loops text is valid for it only."""
    from flambeau.base.source import PACKAGE_FOLDER
    digest = hashlib.sha256()
    for folder in ("compiler", "ir", "types"):
        for path in sorted(pathlib.Path(PACKAGE_FOLDER, folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def loaded():
    """A copy of what is loaded: key -> object bytes (how the pack is made)."""
    with _LOCK:
        return {key: data for key, (_, data) in _LOADED.items()}


def object_key(text, target):
    """The name of an object in the cache: hash of LLVM text, target, optimisation level and version."""
    facts = "\0".join((OBJECT_VERSION, target.key, str(flags.opt), text))
    return hashlib.sha256(facts.encode()).hexdigest()


def load_object_bytes(data, name):
    """The address of function `name` in object `data`: by our own loader or, failing that, by LLVM's."""
    if flags.loader == "own":
        try:
            from flambeau.runtime.library import load_object
            return load_object(data, [name])[name]
        except (ImportError, OSError):
            pass        # no x86-64, or something in the object that our loader does not know
    from flambeau.compiler.jit import load_with_llvm
    return load_with_llvm(data, [name])[name]


def _load(key, make_text, name, target):
    """((address, data), 'compiled' or 'from_cache')."""
    for get in places():
        data = get(key)
        address = _load_cached(data, name) if data else None
        if address:
            return (address, data), "from_cache"
    from flambeau.compiler.jit import compile_text
    data = compile_text(make_text(), target)
    address = load_object_bytes(data, name)
    default_cache().put(key, data)
    return (address, data), "compiled"


@functools.cache
def installed_pack():
    """The pack of common kernels that came with the installation (empty if there is none)."""
    from flambeau.compiler.packfile import PackFile
    return PackFile.installed()


def _load_cached(data, name):
    """The address, or None where the entry is no object with that function. LLVM never sees a damaged one."""
    try:
        from flambeau.runtime.library import check_object
        check_object(data)
    except ImportError:
        pass
    except OSError:
        return None
    try:
        return load_object_bytes(data, name)
    except (OSError, RuntimeError):
        return None
