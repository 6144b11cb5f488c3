"""Backward over values that were written since: the error names the variable, the op and the statement."""

import pytest

import flambeau as fl


def error_of(loss):
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    return str(caught.value)


def test_the_message_names_variable_op_and_statement():
    weight = fl.ones(3, requires_grad=True)
    hidden = weight * 2
    loss = (hidden * hidden).sum()
    hidden.add_(1)                              # the write, one line below the op
    text = error_of(loss)
    assert "[mul] saved its input 0, the variable 'hidden', of shape (3,)" in text
    saved, written = (int(line.rpartition(":")[2]) for line in text.splitlines() if "test_stale.py:" in line)
    assert "saved at test_stale.py:" in text and written == saved + 1
    assert "written by add_ at test_stale.py:" in text and "hidden.add_(1)" not in text.split("hint")[1]
    assert weight.grad is None


def test_nothing_is_accumulated_before_the_error():
    first, second = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    inner = first * 1
    loss = (inner * inner).sum() + (second * second).sum()
    inner.mul_(3)
    error_of(loss)
    assert first.grad is None and second.grad is None


def test_an_output_written_over():
    x = fl.ones(2, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    with fl.no_grad():
        y.zero_()
    assert "[exp] saved its output, the variable 'y'" in error_of(loss)


def test_a_program_that_never_uses_the_graph_again_stays_legal():
    x = fl.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    y.add_(1)
    assert z.tolist() == [4.0, 4.0] and y.tolist() == [3.0, 3.0]


def test_a_write_before_the_save_is_fine():
    x = fl.ones(2, requires_grad=True)
    y = x * 2
    y.add_(1)
    (y * y).sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]


def matrix():
    return fl.zeros(4, 6)


PIECES = [(lambda m: m[:2], lambda m: m[2:]), (lambda m: m[:, :3], lambda m: m[:, 3:]), (lambda m: m[::2], lambda m: m[1::2]),
          (lambda m: m[0], lambda m: m[3]), (lambda m: m[1:3, 1:3], lambda m: m[1:3, 4:])]


@pytest.mark.parametrize("saved, other", PIECES)
@pytest.mark.parametrize("write", [lambda t: t.fill_(5.0), lambda t: t.add_(1), lambda t: t.copy_(fl.ones(t.shape)),
                                   lambda t: t.zero_(), lambda t: t.mul_(2.0)])
def test_writes_beside_a_saved_slice_are_legal(saved, other, write):
    m = matrix()
    saved(m).fill_(3.0)
    w = fl.ones(saved(m).shape, requires_grad=True)
    y = (saved(m) * w).sum()
    write(other(m))
    y.backward()
    assert (w.grad == 3).all()


@pytest.mark.parametrize("saved, other", PIECES)
def test_writes_into_a_saved_slice_are_not(saved, other):
    m = matrix()
    w = fl.ones(saved(m).shape, requires_grad=True)
    y = (saved(m) * w).sum()
    other(m).add_(1)
    saved(m).view_as(saved(m)).add_(1)
    other(m).add_(1)
    with pytest.raises(RuntimeError, match="written by add_ at test_stale.py"):
        y.backward()
    assert w.grad is None


def test_a_buffer_that_is_filled_row_by_row():
    rows, w = fl.zeros(5, 3), fl.ones(3, requires_grad=True)
    losses = []
    for step in range(5):
        rows[step] = float(step)
        losses.append((rows[step] * w).sum())
    sum(losses).backward()
    assert w.grad.tolist() == [10.0] * 3


def test_with_too_many_writes_to_remember_the_answer_is_careful():
    rows, w = fl.zeros(2, 3), fl.ones(3, requires_grad=True)
    y = (rows[0] * w).sum()
    for _ in range(100):
        rows[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
