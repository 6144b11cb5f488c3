"""Numbers that a dtype cannot hold are refused by everything that writes numbers, and clamp and where."""

import math

import pytest

import flambeau as fl

MASK, PLACE = fl.tensor([True, False]), fl.tensor([1])


def put(x, index, value):
    x[index] = value
    return x


WRITES = {
    "full": lambda x, v: fl.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: fl.full_like(x, v),
    "tensor": lambda x, v: fl.tensor([v], dtype=x.dtype),
    "number": lambda x, v: fl.tensor(v, dtype=x.dtype),
    "fill_": lambda x, v: x.fill_(v),
    "an element": lambda x, v: put(x, 0, v),
    "a slice": lambda x, v: put(x, slice(None), v),
    "a mask": lambda x, v: put(x, MASK, v),
    "an index": lambda x, v: put(x, PLACE, v),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "index_fill": lambda x, v: x.index_fill(0, PLACE, v),
    "scatter": lambda x, v: x.scatter(0, PLACE, v),
    "pad": lambda x, v: fl.nn.functional.pad(x, (1, 0), value=v),
    "clamp": lambda x, v: x.clamp(max=v),
    "where": lambda x, v: fl.where(MASK, x, v),
}
CASES = [(fl.uint8, 256, 255), (fl.uint8, -256, -1), (fl.int8, -129, -128), (fl.int32, 2 ** 31, 2 ** 31 - 1),
         (fl.int64, 2 ** 63, 2 ** 63 - 1), (fl.float32, 1e300, 3e38)]


@pytest.mark.parametrize("name", WRITES)
def test_what_does_not_fit_is_refused(name):
    for dtype, bad, good in CASES:
        if dtype is fl.float32 and name in ("tensor", "number"):
            continue                        # those round to infinity
        for _ in range(2):
            x = fl.zeros(2, dtype=dtype)
            with pytest.raises(RuntimeError, match=r"value cannot be converted to type \w+ without overflow"):
                WRITES[name](x, bad)
            assert x.tolist() == [0, 0] and x._version == 0
            WRITES[name](x, good)


@pytest.mark.parametrize("name", [n for n in WRITES if n not in ("clamp", "where")])
def test_fractions_in_integers(name):
    x = fl.zeros(2, dtype=fl.uint8)
    assert WRITES[name](x, 2.5).max().item() == 2
    for bad in (-1.5, math.nan, math.inf, 300.0):
        with pytest.raises(RuntimeError, match="without overflow"):
            WRITES[name](fl.zeros(2, dtype=fl.uint8), bad)
    assert put(fl.zeros(2, dtype=fl.bool), MASK, 0.5).tolist() == [True, False]


def test_halves_are_rounded_where_single_elements_are_written():
    x = fl.zeros(2, dtype=fl.float16)
    assert put(x, 0, -1e9).tolist() == [-math.inf, 0.0] and x.new_full((1,), 1e9).tolist() == [math.inf]
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(MASK, -1e9)
    assert x.masked_fill(MASK, -math.inf)[0].item() == -math.inf
