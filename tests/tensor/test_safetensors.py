"""safetensors files: both ways, beside the package's own reader, and damaged ones."""

import numpy
import pytest

import flambeau as fl
from flambeau import nn

safetensors = pytest.importorskip("safetensors.numpy")


def test_a_state_dict_of_another_framework_loads_by_name(tmp_path):
    rng = numpy.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 4)).astype("float32"), rng.normal(size=3).astype("float32")
    safetensors.save_file({"0.weight": weight, "0.bias": bias}, tmp_path / "m.safetensors")
    net = nn.Sequential(nn.Linear(4, 3))
    net.load_state_dict(fl.load(tmp_path / "m.safetensors"))
    x = rng.normal(size=(2, 4)).astype("float32")
    assert numpy.allclose(net(fl.from_numpy(x)).detach().numpy(), x @ weight.T + bias, atol=1e-6)


def test_what_we_write_others_read(tmp_path):
    path = tmp_path / "t.safetensors"
    tensors = {"a": fl.arange(6).reshape(2, 3).t(), "b": fl.tensor(2.5), "c": fl.zeros(0, 3), "d": fl.tensor([True, False])}
    fl.save(tensors, path)
    seen = safetensors.load_file(path)
    for name, tensor in tensors.items():
        assert numpy.array_equal(seen[name], tensor.numpy()) and seen[name].dtype == tensor.numpy().dtype


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16, fl.float64, fl.int8])
def test_dtypes_round_trip(tmp_path, dtype):
    x = fl.tensor([1, -2, 3]).to(dtype)
    fl.save({"x": x}, tmp_path / "x.safetensors")
    back = fl.load(tmp_path / "x.safetensors")["x"]
    assert back.dtype is dtype and back.float().tolist() == [1.0, -2.0, 3.0]


def test_a_damaged_file_and_wrong_data(tmp_path):
    path = tmp_path / "x.safetensors"
    fl.save({"x": fl.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RuntimeError, match="x.safetensors"):
        fl.load(path)
    with pytest.raises(TypeError, match="dict of tensors"):
        fl.save([fl.ones(1)], path)
