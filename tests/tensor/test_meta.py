"""Meta tensors: sizes without memory go through ops, and nothing reads what is not there."""

import pytest

import flambeau as fl


@pytest.fixture
def meta():
    return fl.empty((3, 4), device="meta")


def test_ops_work_out_sizes(meta):
    assert (meta + 1).shape == (3, 4) and (meta @ meta.t()).shape == (3, 3) and meta.sum(1, keepdim=True).shape == (3, 1)
    assert fl.softmax(meta, 1).shape == (3, 4) and fl.where(meta > 0, meta, 0.0).dtype is fl.float32
    for made in (meta + fl.ones(4), meta.sin(), fl.softmax(meta, 1)):
        assert made.device.type == "meta"


def test_also_after_a_real_tensor_of_the_same_signature(meta):
    real = fl.ones(3, 4)
    for call in (lambda x: fl.softmax(x, 1), lambda x: x.sum(0), lambda x: x * 2, lambda x: x.cumsum(0)):
        call(real)
        assert call(meta).device.type == "meta"


def test_fills_do_nothing(meta):
    assert meta.fill_(1.0) is meta and meta.zero_() is meta and meta.uniform_().shape == (3, 4)


def test_reading_is_refused(meta):
    for read in (lambda: meta[0, 0].item(), lambda: bool(meta), lambda: meta.numpy(), lambda: meta.tolist()):
        with pytest.raises(RuntimeError):
            read()
