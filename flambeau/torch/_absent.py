"""How the module of a device that is not here answers: nothing to do, nothing there, or a refusal that helps.

    globals().update(_absent.nothing("empty_cache"), **_absent.refused("cuda", "current_device"))

Three kinds of names: what only tidies up does nothing; what counts says 0 or an empty container; what must
name a device raises MissingDevice, which is caught like the AssertionError, RuntimeError or
NotImplementedError of PyTorch.
"""

import contextlib

from flambeau.types.device import Device, missing


def nothing(*names):
    """name -> function of any arguments that does nothing."""
    return answered(None, *names)


def answered(value, *names):
    """name -> function of any arguments that returns `value` (a container: a new, equal one)."""
    return {name: _answer(name, value) for name in names}


def _answer(name, value):
    def answer(*args, **kwargs):
        return value.copy() if hasattr(value, "copy") else value
    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"{'Does nothing' if value is None else repr(value)}: there is no such device."
    return answer


def refused(device, *names):
    """name -> function that raises MissingDevice, naming itself and the device."""
    return {name: _refusal(device, name) for name in names}


def _refusal(device, name):
    def refuse(*args, **kwargs):
        missing(Device(device), f"{device}.{name}")
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused, as PyTorch refuses it without a device."
    return refuse


def refused_class(device, name):
    """A class to name in annotations and isinstance; making an object raises MissingDevice."""
    def construct(cls, *args, **kwargs):
        missing(Device(device), f"{device}.{name}")
    return type(name, (), {"__new__": construct, "__module__": f"torch.{device}",
                           "__doc__": "There is no such device; making one is refused."})


def device_contexts(name):
    """(device, device_of): contexts that choose the current device of the kind `name`; only 'none of them' is
    possible.
    """
    @contextlib.contextmanager
    def device(device):
        """A block on the device of this number; a negative one, or None, is no choice."""
        if device is not None and not (isinstance(device, int) and device < 0):
            missing(Device(name), f"{name}.device")
        yield

    @contextlib.contextmanager
    def device_of(obj):
        """A block on the device of a tensor: on the CPU, no choice."""
        yield

    return device, device_of


def set_device(name):
    """The function `set_device` of the kind `name`."""
    def set_device(device):
        """Refused, unless the number is negative (no choice); ValueError for a device of another kind."""
        if isinstance(device, int) and device < 0:
            return
        if not isinstance(device, int) and Device(device).type != name:
            raise ValueError(f"Expected a {name} device, but got: {device}")
        missing(Device(name), f"{name}.set_device")
    return set_device
