"""Every environment switch, read once, as the attributes of one object.

>>> from flambeau.base.flags import flags
>>> flags.loader in ("own", "llvm")
True

A switch is one row of SWITCHES; there are at most twelve. `with override(threads=1):` changes some for a
block, for tests and for tools. A value that cannot be read raises ValueError at import, naming what is
allowed.
"""

import os
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Switch:
    """One environment variable: where it is kept, how its text is read, what it means."""

    attribute: str
    variable: str
    default: object
    read: object        # text -> value; raises ValueError on text it does not know
    allowed: str
    meaning: str


def _choice(*values):
    def read(text):
        if text not in values:
            raise ValueError(text)
        return text
    return read


def _yes_or_no(text):
    if text.lower() in ("", "0", "no", "false", "off"):
        return False
    if text.lower() in ("1", "yes", "true", "on"):
        return True
    raise ValueError(text)


def _whole(smallest, largest):
    def read(text):
        value = int(text)
        if not smallest <= value <= largest:
            raise ValueError(text)
        return value
    return read


SWITCHES = (
    Switch("cache", "FLAMBEAU_CACHE", None, str, "a folder",
           "Folder of compiled kernels; without it ~/.cache/flambeau."),
    Switch("threads", "FLAMBEAU_THREADS", None, _whole(1, 4096), "1 to 4096",
           "Threads that a kernel may use; without it all that this process may run on."),
    Switch("no_pack", "FLAMBEAU_NO_PACK", False, _yes_or_no, "0 or 1",
           "Ignore the kernels that were compiled at installation."),
    Switch("debug", "FLAMBEAU_DEBUG", False, _yes_or_no, "0 or 1",
           "Keep this package's own frames in the tracebacks of errors."),
    Switch("opt", "FLAMBEAU_OPT", 2, _whole(0, 3), "0, 1, 2 or 3",
           "LLVM's optimisation level for kernels."),
    Switch("loader", "FLAMBEAU_LOADER", "own", _choice("own", "llvm"), "own or llvm",
           "Who loads compiled objects: our own loader, or LLVM's (LLJIT)."),
    Switch("target", "FLAMBEAU_TARGET", "native", _choice("native", "generic", "avx2", "avx512"),
           "native, generic, avx2 or avx512",
           "The processor that kernels are compiled for."),
    Switch("autotune", "FLAMBEAU_AUTOTUNE", False, _yes_or_no, "0 or 1",
           "Choose schedules of kernels by measured time: what `flambeau.backends.autotune` is at the start."),
)


class Flags:
    """The switches' values as attributes. Read-only; see `override`."""

    __slots__ = tuple(switch.attribute for switch in SWITCHES)

    def __setattr__(self, name, value):
        raise AttributeError(f"flags are read once from the environment; use `with override({name}=...)`")

    def __repr__(self):
        return "Flags(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__) + ")"


def read_flags(environ):
    """Flags from a mapping of environment variables; an empty value counts as not set."""
    result = Flags()
    for switch in SWITCHES:
        text = environ.get(switch.variable, "").strip()
        try:
            value = switch.read(text) if text else switch.default
        except ValueError:
            raise ValueError(f"[flags] {switch.variable} cannot be read: "
                             f"got {text!r}, wanted {switch.allowed}\n  hint: {switch.meaning}") from None
        object.__setattr__(result, switch.attribute, value)
    return result


@contextmanager
def override(**values):
    """Set some flags for the block, in the whole process, and put them back after it."""
    before = {name: getattr(flags, name) for name in values}
    try:
        for name, value in values.items():
            object.__setattr__(flags, name, value)
        yield flags
    finally:
        for name, value in before.items():
            object.__setattr__(flags, name, value)


def torch_switch(variable):
    """Whether a switch of PyTorch's own is set; programs set these while they run, so they are read at each use."""
    return os.environ.get(variable, "").lower() in ("1", "y", "yes", "true")


flags = read_flags(os.environ)
