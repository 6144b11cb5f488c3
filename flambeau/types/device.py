"""Devices: a type and perhaps a number. Naming a device does not need it to exist here."""

import operator

from flambeau.base.errors import DeviceError, fail

TYPES = ("cpu", "cuda", "meta", "mps", "xpu", "hip", "mtia")


class Device:
    """Where a tensor lives: `Device('cpu')`, `Device('cuda:1')`, `Device('cuda', 1)`, `Device(another)`.

    'meta' tensors have a shape and a dtype but no elements. Immutable; equal if type and index are equal, so
    'cuda' (the current one) differs from 'cuda:0'. `str` is what the constructor reads.
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
