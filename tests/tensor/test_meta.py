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


def test_every_kind_of_kernel_works_out_sizes(meta):
    index, mask = fl.zeros(2, 4, dtype=fl.int64, device="meta"), meta > 0
    functional = fl.nn.functional
    for call, shape in ((lambda: fl.cat([meta, meta], 1), (3, 8)), (lambda: fl.stack([meta, fl.ones(3, 4)]), (2, 3, 4)),
                        (lambda: meta.gather(0, index), (2, 4)), (lambda: meta.t().reshape(12), (12,)),
                        (lambda: functional.embedding(index, meta), (2, 4, 4)), (lambda: meta.masked_fill(mask, 0.0), (3, 4)),
                        (lambda: functional.dropout(meta, 0.5), (3, 4)), (lambda: meta.add_(1), (3, 4)),
                        (lambda: functional.binary_cross_entropy(meta, meta), ()),
                        (lambda: fl.complex(meta, meta), (3, 4))):
        made = call()
        assert made.is_meta and tuple(made.shape) == shape


def test_recurrences_of_meta_tensors():
    place = {"device": "meta"}
    x, row = fl.zeros(5, 2, 3, **place), fl.zeros(2, 3, **place)
    for kind in (fl.nn.RNN, fl.nn.LSTM, fl.nn.GRU):
        assert kind(3, 4, 2, bidirectional=True, **place)(x)[0].shape == (5, 2, 8)
    hidden, cell = fl.nn.LSTMCell(3, 4, **place)(row, (fl.zeros(2, 4, **place),) * 2)
    assert hidden.is_meta and cell.shape == (2, 4)
    assert fl.nn.GRUCell(3, 4, **place)(row, fl.zeros(2, 4, **place)).is_meta
