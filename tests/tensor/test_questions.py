"""Facts about dtypes, questions about tensors, switches of the process, old constructors, storages."""

import pickle

import numpy as np
import pytest

import flambeau as fl


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo_is_numpys(name):
    ours, theirs = fl.finfo(getattr(fl, name)), np.finfo(name)
    assert (ours.max, ours.min, ours.eps, ours.tiny, ours.bits) == tuple(
        float(v) for v in (theirs.max, theirs.min, theirs.eps, theirs.tiny, theirs.bits))
    assert ours.resolution == float(f"{float(theirs.resolution):.1g}") and ours.dtype == name


def test_finfo_of_others():
    assert fl.finfo(fl.bfloat16).max == 3.3895313892515355e+38 and fl.finfo(fl.bfloat16).eps == 2 ** -7
    assert fl.finfo() == fl.finfo(fl.float32) == fl.finfo(fl.complex64)
    assert repr(fl.finfo(fl.float16)) == ("finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, "
                                          "smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)")
    with pytest.raises(TypeError, match="Use iinfo"):
        fl.finfo(fl.int32)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint64"])
def test_iinfo_is_numpys(name):
    ours, theirs = fl.iinfo(getattr(fl, name)), np.iinfo(name)
    assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)
    with pytest.raises(TypeError, match="Use finfo"):
        fl.iinfo(fl.float32)


def test_promotion_questions():
    assert fl.result_type(fl.ones(2, dtype=fl.int32), 1.5) is fl.float32
    assert fl.result_type(fl.ones(2, dtype=fl.float16), fl.tensor(1.0, dtype=fl.float64)) is fl.float16
    assert fl.promote_types(fl.uint8, fl.int8) is fl.int16
    assert fl.can_cast(fl.int64, fl.float16) and not fl.can_cast(fl.float32, fl.int64)
    assert not fl.can_cast(fl.int8, fl.bool) and not fl.can_cast(fl.complex64, fl.float64)


def test_questions_about_tensors():
    x = fl.ones(2, 3)
    assert fl.is_tensor(x) and not fl.is_tensor(1) and fl.is_floating_point(x) and not fl.is_complex(x)
    assert fl.is_nonzero(fl.tensor([2])) and not fl.is_nonzero(fl.tensor(0.0))
    with pytest.raises(RuntimeError, match="more than one value"):
        fl.is_nonzero(x)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        fl.is_floating_point(1)


def test_constants_are_shown_and_pickled_by_name():
    assert repr(fl.strided) == "flambeau.strided" and fl.ones(1).layout is fl.strided
    assert isinstance(fl.channels_last, fl.memory_format) and isinstance(fl.strided, fl.layout)
    assert pickle.loads(pickle.dumps(fl.channels_last)) is fl.channels_last


def test_switches_are_remembered():
    fl.set_float32_matmul_precision("high")
    assert fl.get_float32_matmul_precision() == "high"
    fl.set_float32_matmul_precision("highest")
    fl.use_deterministic_algorithms(True, warn_only=True)
    assert fl.get_deterministic_debug_mode() == 1 and fl.are_deterministic_algorithms_enabled()
    fl.use_deterministic_algorithms(False)
    assert fl.get_deterministic_debug_mode() == 0
    assert str(fl.get_default_device()) == "cpu"
    with pytest.raises(RuntimeError, match="Invalid precision"):
        fl.set_float32_matmul_precision("low")


def test_old_constructors():
    assert fl.FloatTensor([1, 2]).tolist() == [1.0, 2.0] and fl.FloatTensor(2, 3).shape == (2, 3)
    assert fl.LongTensor([1.7]).tolist() == [1] and fl.BoolTensor([1, 0]).tolist() == [True, False]
    assert fl.FloatTensor(fl.Size([2, 3])).shape == (2, 3) and fl.FloatTensor((2, 3)).tolist() == [2, 3]
    assert fl.DoubleTensor(np.arange(3)).dtype is fl.float64 and fl.FloatTensor().shape == (0,)
    assert isinstance(fl.ones(1), fl.FloatTensor) and not isinstance(fl.ones(1), fl.LongTensor)
    with pytest.raises(TypeError, match="data must be a sequence"):
        fl.FloatTensor(2.5)


def test_default_tensor_type():
    with pytest.warns(UserWarning, match="deprecated"):
        fl.set_default_tensor_type(fl.DoubleTensor)
    try:
        assert fl.tensor([1.0]).dtype is fl.float64
    finally:
        with pytest.warns(UserWarning, match="deprecated"):
            fl.set_default_tensor_type("torch.FloatTensor")
    assert fl.get_default_dtype() is fl.float32
    with pytest.raises(RuntimeError, match="no CUDA device here"):
        fl.set_default_tensor_type("torch.cuda.FloatTensor")
    with pytest.raises(ValueError, match="invalid type"):
        fl.set_default_tensor_type("torch.FloaterTensor")


def test_storages():
    x = fl.arange(6.0)
    view = x.reshape(2, 3).t()[1]
    assert list(view.storage()) == [0, 1, 2, 3, 4, 5] and view.storage().size() == 6
    assert view.untyped_storage() == x.untyped_storage() != x.clone().untyped_storage()
    assert x.untyped_storage().data_ptr() == x.data_ptr() and x.untyped_storage().nbytes() == 24
    view.storage()[0] = 9
    assert x[0] == 9
