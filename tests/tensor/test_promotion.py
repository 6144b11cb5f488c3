"""Promotion: pairs of dtypes x {dimensioned, 0-d, Python number}, against a table made with PyTorch 2.13."""

import json
from pathlib import Path

import pytest

import flambeau as fl
from flambeau.types import dtype as dtypes

TABLE = json.loads((Path(__file__).parents[1] / "data_tables" / "promotion.json").read_text())
NUMBERS = {"True": True, "2": 2, "2.5": 2.5}


def made(name, ndim):
    return fl.ones((2,) * ndim, dtype=dtypes.by_name(name))


@pytest.mark.parametrize("first", sorted({pair.split()[0] for pair in TABLE}))
def test_the_dtype_of_a_sum(first):
    """Each row: both dimensioned, second 0-d, first 0-d, both 0-d; with a number: dimensioned, 0-d."""
    for pair, want in TABLE.items():
        a, b = pair.split()
        if a != first:
            continue
        if b in NUMBERS:
            got = [(made(a, n) + NUMBERS[b]).dtype.name for n in (1, 0)]
            assert got == [(NUMBERS[b] + made(a, n)).dtype.name for n in (1, 0)]
        else:
            got = [(made(a, n) + made(b, m)).dtype.name for n, m in ((1, 1), (1, 0), (0, 1), (0, 0))]
        assert got == want, pair


def test_promote_types_is_the_same_table():
    for pair, want in TABLE.items():
        a, b = pair.split()
        if b not in NUMBERS:
            assert fl.promote_types(dtypes.by_name(a), dtypes.by_name(b)).name == want[0], pair


@pytest.mark.parametrize("op, want", [
    (lambda i: i / 2, "float32"), (lambda i: i / i, "float32"), (lambda i: i // 2, "int64"),
    (lambda i: i % 2, "int64"),
    (lambda i: i ** 2, "int64"), (lambda i: i == 2.5, "bool"), (lambda i: i.sin(), "float32"),
    (lambda i: i.sqrt(), "float32"),
    (lambda i: i.sum(), "int64"), (lambda i: i.bool().sum(), "int64"), (lambda i: i.abs(), "int64"),
    (lambda i: -i, "int64"),
    (lambda i: i * 1.5, "float32"), (lambda i: i.byte().sum(), "int64"),
    (lambda i: i.half().sum(), "float16"),
    (lambda i: i.half() * 2.5, "float16"), (lambda i: i.bfloat16() + i.half(), "float32"),
])
def test_results_of_single_ops(op, want):
    assert op(fl.tensor([1, 2, 3])).dtype.name == want


def test_a_changed_default_dtype_shows_in_divisions_and_numbers():
    fl.set_default_dtype(fl.float64)
    try:
        assert (fl.tensor([1, 2]) / 2).dtype is fl.float64
        assert (fl.tensor([1, 2]) + 0.5).dtype is fl.float64
        assert fl.tensor(0.5).dtype is fl.float64 and fl.zeros(2).dtype is fl.float64
    finally:
        fl.set_default_dtype(fl.float32)
    assert (fl.tensor([1, 2]) / 2).dtype is fl.float32


def test_in_place_ops_keep_the_dtype_or_refuse():
    x = fl.ones(2, dtype=fl.float32)
    x += fl.ones(2, dtype=fl.float64)
    x += fl.tensor([1, 2])
    assert x.dtype is fl.float32 and x.tolist() == [3.0, 4.0]
    i = fl.tensor([1, 2])
    for write in (lambda: i.add_(0.5), lambda: i.div_(2), lambda: i.copy_ and i.add_(fl.ones(2))):
        with pytest.raises(RuntimeError, match="can't be cast"):
            write()
    assert i.tolist() == [1, 2]
