"""The steps of recurrent cells: sizes that do not fit are refused (values and gradients: test_every_op)."""

import pytest

import flambeau as fl
from flambeau import ops


def test_sizes():
    with pytest.raises(RuntimeError, match="gates and state do not fit"):
        ops.lstm_gates(fl.zeros(2, 12), fl.zeros(2, 12), fl.zeros(2, 4))
    with pytest.raises(RuntimeError, match="gates and state do not fit"):
        ops.gru_gates(fl.zeros(2, 12), fl.zeros(3, 12), fl.zeros(2, 4))
    assert ops.gru_gates(fl.zeros(2, 12), fl.zeros(2, 12), fl.ones(2, 4)).tolist() == [[0.5] * 4] * 2
