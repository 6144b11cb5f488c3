"""Devices: a type and perhaps a number. Naming a device does not need it to exist here; only 'cpu' and 'meta'
do.

The default device is that of new tensors which name none: the one of the innermost `with Device(...)` block
of this thread, else the one that `set_default` was told, else the CPU.
"""

import functools
import operator
import threading

from flambeau.base.errors import DeviceError, MissingDevice, fail

TYPES = ("cpu", "cuda", "meta", "mps", "xpu", "hip", "mtia", "ipu", "xla", "hpu", "lazy", "vulkan", "ve",
    "fpga",
         "maia", "mkldnn", "opengl", "opencl", "ideep", "privateuseone")
PRESENT = ("cpu", "meta")


class Device:
    """Where a tensor lives: `Device('cpu')`, `Device('cuda:1')`, `Device('cuda', 1)`, `Device(another)`.

    'meta' tensors have a shape and a dtype but no elements. Immutable; equal if type and index are equal, so
    'cuda' (the current one) differs from 'cuda:0'. `str` is what the constructor reads. As a context manager,
    or as the decorator of a function, it is the device of new tensors which name none. A number alone means
    the
    accelerator of that number: there is none, so MissingDevice (a RuntimeError).

    >>> with Device("meta"):
    ...     default()
    device(type='meta')
    """

    __slots__ = ("type", "index")

    def __init__(self, type, index=None):
        if isinstance(type, Device):
            if index is not None:
                fail("device", "a device that is complete takes no index", got=f"{type!r} and {index!r}",
                     kind=TypeError)
            type, index = type.type, type.index
        elif isinstance(type, str):
            type, index = _parse(type, index)
        elif isinstance(type, int) and not isinstance(type, bool):
            no_accelerator("device", type)
        else:
            fail("device", "a device is named by a string", got=repr(type),
                 want="'cpu', 'cuda:0' or the like", kind=TypeError)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "index", index)

    def __setattr__(self, name, value):
        raise AttributeError("a device cannot be changed; make another one")

    def __delattr__(self, name):
        raise AttributeError("a device cannot be changed; make another one")

    def __eq__(self, other):
        if not isinstance(other, Device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self):
        return hash((self.type, self.index))

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self):
        return Device, (str(self),)

    def __enter__(self):
        _places.stack.append(self)
        _mark(1)
        return self

    def __exit__(self, *error):
        _places.stack.pop()
        _mark(-1)

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return inside


class _Places(threading.local):
    """Of a thread: the devices of its `with` blocks."""

    def __init__(self):
        self.stack = []


_places = _Places()
_chosen = [None, 0]         # what `set_default` was told; how many blocks are entered, in all threads


def _mark(step):
    _chosen[1] += step


def default():
    """The device of new tensors which name none."""
    if _chosen[1] and _places.stack:
        return _places.stack[-1]
    return CPU if _chosen[0] is None else _chosen[0]


def set_default(device):
    """Choose the device of new tensors which name none; None is the CPU. Returns the one before."""
    before = _chosen[0]
    _chosen[0] = None if device is None else as_device(device)
    return before


def is_meta(device):
    """True for shapes without memory; None is the default device. MissingDevice for a device that is not
    here.
    """
    if device is None:
        if _chosen[0] is None and not _chosen[1]:
            return False
        device = default()
    elif device.__class__ is not Device:
        device = Device(device)
    if device.type not in PRESENT:
        missing(device)
    return device.type == "meta"


def placed(function):
    """Decorator of a function that makes a tensor on the CPU and takes `device=`: the result is where that
    says.
    """
    @functools.wraps(function)
    def make(*args, **kwargs):
        meta = is_meta(kwargs.get("device"))
        made = function(*args, **kwargs)
        return made.to("meta") if meta else made
    return make


def missing(device, what="device"):
    """Raise the error that a device which is not here deserves, with a way to go on."""
    name = device.type
    fail(what, f"there is no {_SHOWN.get(name, name)} device here: Flambeau computes on the CPU", str(device),
         "'cpu' or 'meta'",
        hint=f"choose the device by what there is: device = 'cuda' if torch.cuda.is_available() "
         f"else 'cpu'; a program with an option for it usually has --device cpu or --no-{name}",
         kind=MissingDevice)


def no_accelerator(what, number=None):
    """Raise the error of what needs an accelerator."""
    fail(what, "a device that is only a number means an accelerator, and there is none here"
         if number is not None else "there is no accelerator here: Flambeau computes on the CPU", number,
         hint="ask torch.accelerator.is_available() first, and use 'cpu' if there is none",
        kind=MissingDevice)


_SHOWN = {"cuda": "CUDA", "mps": "MPS", "xpu": "XPU", "hip": "HIP", "mtia": "MTIA"}


def _parse(text, index):
    name, colon, number = text.partition(":")
    if name not in TYPES:
        fail("device", "unknown device type", got=repr(text), want=", ".join(TYPES), kind=DeviceError)
    if colon:
        if index is not None:
            fail("device", "the index is given twice", got=f"{text!r} and {index!r}", kind=DeviceError)
        if not (number.isascii() and number.isdigit()) or (len(number) > 1 and number[0] == "0"):
            fail("device", "an index is a number of 0 or more", got=repr(text),
                 want=f"'{name}:0' or the like", kind=DeviceError)
        return name, int(number)
    if index is None:
        return name, None
    try:
        index = operator.index(index)
    except TypeError:
        fail("device", "an index is an integer", got=repr(index), kind=TypeError)
    if index < 0:
        fail("device", "an index is a number of 0 or more", got=index, kind=DeviceError)
    return name, index


CPU, META = Device("cpu"), Device("meta")


def as_device(value):
    """A Device of a Device, a string or None (the CPU)."""
    if value is None:
        return CPU
    return value if isinstance(value, Device) else Device(value)
