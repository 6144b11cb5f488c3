"""What a tensor is not, and small methods."""

import pytest

import flambeau as fl


def test_what_a_tensor_is_not():
    x = fl.ones(2)
    assert not any(getattr(x, name) for name in ("is_xpu", "is_mps", "is_quantized", "is_nested", "is_sparse_csr", "volatile"))
    assert x.is_cpu and not fl.ones(2, device="meta").is_cpu and x.name is None and x.ndimension() == 1
    with pytest.raises(AssertionError, match="there is no CUDA device here"):
        x.cuda()


def test_functions_of_elements_in_python():
    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
    assert x.apply_(lambda value: value * 10) is x and x.tolist() == [[10, 30], [20, 40]]
    assert x.map_(fl.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [[11, 32], [21, 42]]


def test_order_of_dimensions_and_memory():
    assert fl.ones(2, 3, 4).permute(2, 0, 1).dim_order() == (1, 2, 0)
    assert fl.ones(2, dtype=fl.int8).new_empty_strided((2, 3), (1, 2)).dtype is fl.int8
    assert fl.ones(2).is_nonzero is not None and fl.tensor(3).is_nonzero() and fl.ones(2).is_same_size(fl.zeros(2))


def test_bernoulli_as_a_method():
    fl.manual_seed(0)
    drawn = fl.ones(4000).bernoulli(0.25)
    assert set(drawn.tolist()) == {0, 1} and abs(drawn.mean().item() - 0.25) < 0.03
    assert fl.tensor([0.0, 1.0]).bernoulli().tolist() == [0, 1]


def test_subclasses_share_the_data():
    class Marked(fl.Tensor):
        pass

    x = fl.ones(3)
    marked = x.as_subclass(Marked)
    assert type(marked) is Marked and marked.data_ptr() == x.data_ptr() and marked.as_subclass(Marked) is marked
    with pytest.raises(TypeError, match="subclass of Tensor"):
        x.as_subclass(list)


def test_elements_in_python():
    x = fl.ones(2, 3)
    assert x.map2_(fl.arange(3.0), fl.full((2, 1), 2.0), lambda a, b, c: a + b * c) is x
    assert x.tolist() == [[1, 3, 5]] * 2


def test_what_a_module_keeps_of_loaded_values():
    own, other = fl.zeros(3), fl.ones(3, requires_grad=True)
    assert own.module_load(other).data_ptr() == own.data_ptr() and own.tolist() == [1, 1, 1]
    assert own.module_load(other, assign=True).data_ptr() == other.data_ptr()


def test_grad_dtype_is_the_dtype():
    x = fl.ones(2, dtype=fl.float64, requires_grad=True)
    assert x.grad_dtype is fl.float64
    x.grad_dtype = fl.float64
    with pytest.raises(NotImplementedError):
        x.grad_dtype = fl.float16


def test_programs_may_replace_methods():
    assert repr(fl.Tensor) == "<class 'flambeau.Tensor'>"
    fl.Tensor.doubled = lambda self: self * 2
    plain = fl.Tensor.__repr__
    try:
        fl.Tensor.__repr__ = lambda self: "hidden"
        assert fl.ones(2).doubled().tolist() == [2, 2] and repr(fl.ones(2)) == "hidden"
    finally:
        fl.Tensor.__repr__ = plain
        del fl.Tensor.doubled
    assert repr(fl.ones(1)) == "tensor([1.])" and not hasattr(fl.Tensor, "doubled")
