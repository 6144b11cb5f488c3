"""Devices: what is read, what is equal, what is refused."""

import pickle

import pytest

from flambeau.types.device import CPU, Device, as_device


def test_devices():
    assert Device("cpu") == CPU == as_device(None) == as_device("cpu") and Device("cpu:0") != CPU
    assert Device("cuda", 1) == Device("cuda:1") == Device(Device("cuda:1"))
    assert (Device("cuda:1").type, Device("cuda:1").index, Device("meta").index) == ("cuda", 1, None)
    assert len({Device("cpu"), Device("cpu"), Device("cpu:0")}) == 2
    assert str(Device("cuda:1")) == "cuda:1" and repr(Device("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(CPU) == "device(type='cpu')"
    assert pickle.loads(pickle.dumps(Device("cuda:1"))) == Device("cuda:1")
    assert CPU != "cpu"


@pytest.mark.parametrize("arguments, kind", [
    (("gpu",), RuntimeError), (("cpu:",), RuntimeError), (("cpu:x",), RuntimeError),
    (("cpu:-1",), RuntimeError), (("cpu:01",), RuntimeError), (("cpu:0", 1), RuntimeError),
    (("cpu", -1), RuntimeError), (("cpu", "0"), TypeError), ((3.5,), TypeError), ((CPU, 0), TypeError)])
def test_bad_devices(arguments, kind):
    with pytest.raises(kind, match=r"\[device\] .*got"):
        Device(*arguments)


def test_devices_are_immutable():
    with pytest.raises(AttributeError):
        CPU.type = "cuda"
