"""Collating each kind of sample."""

from collections import OrderedDict, namedtuple
from types import MappingProxyType

import numpy
import pytest

import flambeau as fl
from flambeau.data import collate, default_collate, default_collate_fn_map, default_convert

Point = namedtuple("Point", "x y")


def same(batch, values, dtype):
    return isinstance(batch, fl.Tensor) and batch.tolist() == values and batch.dtype == dtype


def test_tensors_are_stacked():
    assert same(default_collate([fl.tensor([1.0, 2.0]), fl.tensor([3.0, 4.0])]), [[1, 2], [3, 4]], fl.float32)
    assert same(default_collate([fl.tensor(1), fl.tensor(2)]), [1, 2], fl.int64)


def test_numbers_become_tensors():
    assert same(default_collate([1, 2]), [1, 2], fl.int64)
    assert same(default_collate([1.5, 2.5]), [1.5, 2.5], fl.float64)
    assert same(default_collate([True, False]), [True, False], fl.bool)


def test_numpy_keeps_its_dtype():
    ones, zeros = numpy.ones(2, "float32"), numpy.zeros(2, "float32")
    assert same(default_collate([ones, zeros]), [[1, 1], [0, 0]], fl.float32)
    assert same(default_collate([numpy.int32(1), numpy.int32(2)]), [1, 2], fl.int32)
    assert same(default_collate([numpy.float64(1), numpy.float64(2)]), [1, 2], fl.float64)
    with pytest.raises(TypeError, match="got numpy <U1"):
        default_collate([numpy.array(["a"])])


def test_text_stays():
    assert default_collate(["a", "b"]) == ["a", "b"] and default_collate([b"a"]) == [b"a"]
    assert default_collate([numpy.str_("a")]) == ["a"]


def test_structures_are_collated_field_by_field():
    numbers, texts = default_collate([(1, "a"), (2, "b")])
    assert same(numbers, [1, 2], fl.int64) and texts == ("a", "b")
    batch = default_collate([{"x": 1, "y": [1.0, 2]}, {"x": 2, "y": [3.0, 4]}])
    assert same(batch["x"], [1, 2], fl.int64) and same(batch["y"][0], [1, 3], fl.float64)
    point = default_collate([Point(1, 2), Point(3, 4)])
    assert type(point) is Point and same(point.y, [2, 4], fl.int64)


def test_structures_keep_their_type():
    sample = OrderedDict(b=1, a=2)
    batch = default_collate([sample])
    assert type(batch) is OrderedDict and list(batch) == ["b", "a"] and sample == {"b": 1, "a": 2}
    assert type(default_collate([MappingProxyType({"a": 1})])) is MappingProxyType
    samples = [[1, 2], [3, 4]]
    assert type(default_collate(samples)) is list and samples == [[1, 2], [3, 4]], "samples are not changed"
    assert same(default_collate([range(2), range(2, 4)])[1], [1, 3], fl.int64)


def test_what_does_not_fit_together():
    with pytest.raises(RuntimeError, match=r"each element in list .* be of equal size: got sizes \[1, 2\]"):
        default_collate([[1, 2], [3]])
    with pytest.raises(RuntimeError, match=r"got samples of shapes \(2,\), \(3,\)\n  hint: pass collate_fn"):
        default_collate([fl.zeros(3), fl.zeros(2)])
    with pytest.raises(TypeError, match="got object\n  hint: pass collate_fn"):
        default_collate([object()])


def test_users_may_add_types(monkeypatch):
    class Text(str):
        pass
    assert default_collate([Text("a")]) == ["a"]
    monkeypatch.setitem(default_collate_fn_map, Text, lambda batch, *, collate_fn_map=None: "+".join(batch))
    assert default_collate([(Text("a"), 1), (Text("b"), 2)])[0] == "a+b"
    assert collate([1, 2], collate_fn_map={int: lambda batch, *, collate_fn_map=None: sum(batch)}) == 3


def test_convert():
    assert default_convert(1) == 1 and default_convert("a") == "a"
    assert same(default_convert(numpy.ones(2, "float32")), [1, 1], fl.float32)
    assert same(default_convert({"a": numpy.int64(1)})["a"], 1, fl.int64)
    point = default_convert(Point(numpy.zeros(1), "b"))
    assert type(point) is Point and same(point.x, [0], fl.float64) and point.y == "b"
    assert default_convert((1, [2])) == [1, [2]]
    text = numpy.array(["a"])
    assert default_convert(text) is text
