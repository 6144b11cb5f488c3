"""Tensors print as PyTorch prints them; the texts were recorded from it."""

import math

import pytest

import flambeau as fl
from flambeau.tensor.printing import get_printoptions, printoptions, set_printoptions

PREFIX = "flambeau"


@pytest.fixture(autouse=True)
def default_options():
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


CASES = [
    ([], None, "tensor([])"),
    (1.5, None, "tensor(1.5000)"),
    (3, None, "tensor(3)"),
    ([1.0, 2.0, -3.0], None, "tensor([ 1.,  2., -3.])"),
    ([1.0, 2.5, -30.125], None, "tensor([  1.0000,   2.5000, -30.1250])"),
    ([1e-5, 1.0], None, "tensor([1.0000e-05, 1.0000e+00])"),
    ([1e9, 1.0], None, "tensor([1.0000e+09, 1.0000e+00])"),
    ([0.0, -0.0], None, "tensor([0., -0.])"),
    ([math.inf, 1.0, math.nan], None, "tensor([inf, 1., nan])"),
    ([math.inf, 1.5, -math.inf], None, "tensor([   inf, 1.5000,   -inf])"),
    ([1, 20, -300], None, "tensor([   1,   20, -300])"),
    ([True, False], None, "tensor([ True, False])"),
    ([1, 2], "int32", "tensor([1, 2], dtype=PREFIX.int32)"),
    ([1.0, 2.0], "float64", "tensor([1., 2.], dtype=PREFIX.float64)"),
    ([1 / 3], "float16", "tensor([0.3333], dtype=PREFIX.float16)"),
    ([[1, 2], [3, 4]], None, "tensor([[1, 2],\n        [3, 4]])"),
    ([[[1.0], [2.0]], [[3.0], [4.0]]], None,
     "tensor([[[1.],\n         [2.]],\n\n        [[3.],\n         [4.]]])"),
    ([], "int64", "tensor([], dtype=PREFIX.int64)"),
]


@pytest.mark.parametrize("values, dtype, text", CASES)
def test_small_tensors(values, dtype, text):
    tensor = fl.tensor(values, dtype=None if dtype is None else getattr(fl, dtype))
    assert repr(tensor) == text.replace("PREFIX", PREFIX)


def test_empty_with_shape():
    assert repr(fl.zeros(2, 0)) == "tensor([], size=(2, 0))"
    assert repr(fl.zeros(0, dtype=fl.int64)) == f"tensor([], dtype={PREFIX}.int64)"


def test_gradient_suffixes():
    leaf = fl.ones(2, requires_grad=True)
    assert repr(leaf) == "tensor([1., 1.], requires_grad=True)"
    assert "grad_fn=<" in repr(leaf * 2) and "requires_grad" not in repr(leaf * 2)


def test_rows_break_at_the_line_width():
    assert repr(fl.arange(25)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24])")


def test_suffix_moves_to_a_line_of_its_own():
    assert repr(fl.arange(18, dtype=fl.int32)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17],\n"
        f"       dtype={PREFIX}.int32)")


def test_summary_of_a_vector():
    assert repr(fl.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert "..." not in repr(fl.arange(1000))


def test_summary_of_a_matrix():
    assert repr(fl.zeros(1000, 1000)) == (
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        ...,\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.]])")


def test_hidden_elements_do_not_choose_the_format():
    tensor = fl.ones(2000)
    tensor[1000] = 0.123
    assert repr(tensor) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_options():
    tensor = fl.tensor([1.23456, 2.0])
    with printoptions(precision=2):
        assert repr(tensor) == "tensor([1.23, 2.00])"
    with printoptions(sci_mode=True):
        assert repr(tensor) == "tensor([1.2346e+00, 2.0000e+00])"
    with printoptions(threshold=5, edgeitems=1):
        assert repr(fl.arange(10)) == "tensor([0,  ..., 9])"
    with printoptions(profile="short"):
        assert get_printoptions()["precision"] == 2
    assert repr(tensor) == "tensor([1.2346, 2.0000])"
    assert get_printoptions() == {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80,
                                  "sci_mode": None}


def test_parameter_and_meta():
    from flambeau.tensor.parameter import Parameter
    assert repr(Parameter(fl.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(fl.empty(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"


def test_complex():
    tensor = fl.tensor([1 + 2j, -0.5 - 1j])
    assert repr(tensor) == "tensor([ 1.0000+2.j, -0.5000-1.j])"
