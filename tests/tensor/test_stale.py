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
    hidden.add_(1)                              # the write
    text = error_of(loss)
    assert "[mul] saved its input 0, the variable 'hidden', of shape (3,)" in text
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
