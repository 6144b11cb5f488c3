"""Recurrent networks: for each layer and direction one kernel for all its steps.

Sequences are (time, batch, width), or (batch, time, width) with `batch_first`; without a batch axis (time,
width).
"""

import functools
import itertools
import math
import numbers
import warnings

from flambeau import ops
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence
from flambeau.ops import interpose
from flambeau.ops.recurrent import recurrent_gated, recurrent_plain, stacked
from flambeau.ops.wrapped import elements_of
from flambeau.tensor import cat, empty, tensor, zeros
from flambeau.types.dtype import int64

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
KERNELS = {"RNN_TANH": "tanh", "RNN_RELU": "relu", "LSTM": "lstm", "GRU": "gru"}


# ---------------------------------------------------------------------------------- cells

def rnn_step(inputs, hidden, weight, bias, activation):
    """The next state from the projected input (batch, hidden)."""
    return activation(inputs + ops.linear(hidden, weight, bias))


def lstm_step(inputs, state, weight, bias, projection=None):
    """The next (hidden, cell) from the projected input (batch, 4 * hidden)."""
    hidden, cell = state
    if cell.dim() == 1:
        return tuple(part.squeeze(0) for part in lstm_step(
            inputs.unsqueeze(0), (hidden.unsqueeze(0), cell.unsqueeze(0)), weight, bias, projection))
    hidden, cell = ops.lstm_gates(inputs, ops.linear(hidden, weight, bias), cell)
    return (hidden if projection is None else ops.linear(hidden, projection)), cell


def gru_step(inputs, hidden, weight, bias):
    """The next state from the projected input (batch, 3 * hidden)."""
    if hidden.dim() == 1:
        return gru_step(inputs.unsqueeze(0), hidden.unsqueeze(0), weight, bias).squeeze(0)
    return ops.gru_gates(inputs, ops.linear(hidden, weight, bias), hidden)


class RNNCellBase(Module):
    """What the cells share: two matrices and two biases, uniform on +-1/sqrt(hidden_size)."""

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        place = {"device": device, "dtype": dtype}
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), **place))
        self.weight_hh = Parameter(empty((rows, hidden_size), **place))
        self.register_parameter("bias_ih", Parameter(empty(rows, **place)) if bias else None)
        self.register_parameter("bias_hh", Parameter(empty(rows, **place)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new starting values."""
        reset_uniform(self)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _check(self, input, hidden, what="hx"):
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hidden is not None and hidden.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hidden.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected "
                               f"{self.input_size}")
        if hidden is not None and hidden.shape[-1] != self.hidden_size:
            raise RuntimeError(f"hidden has inconsistent hidden_size: got {hidden.shape[-1]}, expected "
                               f"{self.hidden_size}")
        if hidden is not None and hidden.dim() == 2 and hidden.shape[0] != input.shape[0]:
            raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden batch size "
                               f"{hidden.shape[0]}")

    def _start(self, input):
        return zeros((*input.shape[:-1], self.hidden_size), dtype=input.dtype)

    def _projected(self, input):
        return ops.linear(input, self.weight_ih, self.bias_ih)


def reset_uniform(module):
    """All parameters uniform on +-1/sqrt(hidden_size)."""
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class RNNCell(RNNCellBase):
    """One step: `tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)`; nonlinearity 'tanh' or 'relu'."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        self._check(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        hidden = self._start(input) if hx is None else hx
        return rnn_step(self._projected(input), hidden, self.weight_hh, self.bias_hh,
                        getattr(ops, self.nonlinearity))


class LSTMCell(RNNCellBase):
    """One step of long short-term memory: (input, (hidden, cell)) -> (hidden, cell)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        for state in (None, None) if hx is None else hx:
            self._check(input, state)
        state = (self._start(input),) * 2 if hx is None else hx
        return lstm_step(self._projected(input), state, self.weight_hh, self.bias_hh)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit: (input, hidden) -> hidden."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        self._check(input, hx)
        hidden = self._start(input) if hx is None else hx
        return gru_step(self._projected(input), hidden, self.weight_hh, self.bias_hh)


# ---------------------------------------------------------------------------------- layers

@functools.lru_cache(maxsize=256)
def even_starts(time, batch):
    """Where each step's rows start, and where the last ones end."""
    return elements_of(tensor([batch * step for step in range(time + 1)], dtype=int64))


class RNNBase(Module):
    """Layers of recurrences; `mode` is 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.

    Args:
        num_layers: recurrences stacked on each other. bidirectional: each also backwards, side by side.
        dropout: probability of a zero between the layers in training. proj_size: width of projected outputs
            (LSTM).
    """

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_options(self, dropout):
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an "
                             "element being zeroed")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero "
                          f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                          f"num_layers={self.num_layers}", stacklevel=4)
        for names, kind in ((("bias", "batch_first"), bool), (("input_size", "hidden_size"), int)):
            for name in names:
                if not isinstance(getattr(self, name), kind):
                    raise TypeError(f"{name} should be of type {kind.__name__}, got: "
                                    f"{type(getattr(self, name)).__name__}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _make_parameters(self, place):
        rows = GATES[self.mode] * self.hidden_size
        output = self.proj_size or self.hidden_size
        self._all_weights = []
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else output * (2 if self.bidirectional else 1)
            for suffix in ("", "_reverse")[:2 if self.bidirectional else 1]:
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, output)}
                if self.bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if self.proj_size:
                    shapes["weight_hr"] = (self.proj_size, self.hidden_size)
                self._kinds = tuple(shapes)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(empty(shape, **place)))
                self._all_weights.append(names)

    @property
    def all_weights(self):
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Does nothing: the parameters stay where they are."""

    def reset_parameters(self):
        """Draw new starting values, uniform on +-1/sqrt(hidden_size)."""
        reset_uniform(self)

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                              ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    # ------------------------------------------------------------------------------ checks
    @property
    def _flat_weights(self):
        """All parameters, layer by layer."""
        return [getattr(self, name) for names in self._all_weights for name in names]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    def __getstate__(self):
        return {**self.__dict__, "_flat_weights": self._flat_weights, "_flat_weights_names": self._flat_weights_names}

    def __setstate__(self, state):
        state = {name: value for name, value in state.items() if not name.startswith("_flat_weight")}
        super().__setstate__(state)
        self._kinds = tuple(name.rpartition("_l")[0] for name in self._all_weights[0])

    def check_input(self, input, batch_sizes):
        """RuntimeError on an input of other sizes than the layer was made for, ValueError on other dtypes."""
        dtype = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype is not dtype and not interpose.lasting():       # autocast makes them one
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                             f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})")
        wanted = 3 if batch_sizes is None else 2
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError("input.size(-1) must be equal to input_size. Expected "
                               f"{self.input_size}, got {input.shape[-1]}")

    def _expected_size(self, input, batch_sizes, width):
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.shape[0 if self.batch_first else 1]
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input, batch_sizes):
        """(layers * directions, batch, width of a state)."""
        return self._expected_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """RuntimeError on a state of another size."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def check_forward_args(self, input, hidden, batch_sizes):
        """Check an input and a first state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The state with its sequences in another order."""
        return hx if permutation is None else self._map(hx, lambda state: state.index_select(1, permutation))

    def _check_ranks(self, input, hx):
        """The axes of an input that is not packed, and of its first state."""
        rank = input.dim()
        if rank not in (2, 3):
            what = "tensor instead" if self.mode.startswith("RNN") else "instead"
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {rank}D {what}")
        if hx is None or self._every(hx, lambda state: state.dim() == rank):
            return
        kind = "batched 3-D" if rank == 3 else "unbatched 2-D"
        if self.mode == "LSTM":
            raise RuntimeError(f"For {kind} input, hx and cx should also be {rank}-D but got "
                               f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")
        raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")

    # ------------------------------------------------------------------------------ running
    def forward(self, input, hx=None):
        """(outputs (time, batch, directions * hidden), last state (layers * directions, batch, hidden)).

        A `PackedSequence` gives packed outputs.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_ranks(input, hx)
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            hx = self._map(hx, lambda state: state.unsqueeze(1))
        fresh, hx = hx is None, self._first_state(input, None, hx)
        if self.batch_first:
            input = input.transpose(0, 1)
        time, batch = input.shape[:2]
        if time == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        rows = input.reshape(time * batch, self.input_size)
        rows, last = self._layers(rows, even_starts(time, batch), hx, fresh)
        output = rows.reshape(time, batch, rows.shape[1])
        if not batched:
            return output.squeeze(1), self._map(last, lambda state: state.squeeze(1))
        return (output.transpose(0, 1) if self.batch_first else output), last

    def _forward_packed(self, packed, hx):
        data, sizes, order, back = packed
        fresh, hx = hx is None, self._first_state(data, sizes, self.permute_hidden(hx, order))
        counts = sizes.tolist()
        if any(a < b for a, b in itertools.pairwise((*counts, 0))) or sum(counts) != data.shape[0]:
            raise RuntimeError(f"batch_sizes must not grow and add up to the {data.shape[0]} rows of data, got "
                               f"{counts}")
        starts = tensor([0, *itertools.accumulate(counts)], dtype=int64)
        rows, last = self._layers(data, starts, hx, fresh)
        return PackedSequence(rows, sizes, order, back), self.permute_hidden(last, back)

    def _map(self, state, function):
        if state is None:
            return None
        return tuple(map(function, state)) if isinstance(state, (tuple, list)) else function(state)

    def _every(self, state, function):
        return all(map(function, state)) if isinstance(state, (tuple, list)) else function(state)

    def _first_state(self, input, batch_sizes, hx):
        """The checked state to start from: zeros where none is given."""
        if hx is None:
            hidden = zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype)
            same = not self.proj_size
            hx = hidden if self.mode != "LSTM" else (hidden, hidden if same else zeros(
                self._expected_size(input, batch_sizes, self.hidden_size), dtype=input.dtype))
        self.check_forward_args(input, hx, batch_sizes)
        return hx

    def _layers(self, rows, starts, state, fresh):
        """(the outputs of all steps (rows, directions * hidden), the last states); `fresh` where `state` is zero."""
        directions = 2 if self.bidirectional else 1
        states = state if self.mode == "LSTM" else (state,)
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                output, *final = self._run(rows, starts, [part[number] for part in states],
                                           self._all_weights[number], direction == 1, fresh)
                outputs.append(output)
                finals.append(final)
            rows = outputs[0] if directions == 1 else cat(outputs, 1)
            if self.dropout and self.training and layer + 1 < self.num_layers:
                rows = F.dropout(rows, self.dropout)
        last = tuple(stacked(parts) for parts in zip(*finals))
        return rows, last if self.mode == "LSTM" else last[0]

    def _run(self, rows, starts, state, names, backwards, fresh):
        """One layer in one direction: the outputs of all steps, then the last state."""
        weights = {kind: getattr(self, name) for kind, name in zip(self._kinds, names)}
        run = recurrent_gated if self.mode == "GRU" else recurrent_plain
        return run(KERNELS[self.mode], rows, starts, *state, reverse=backwards, fresh=fresh, **weights)


def refuse_projection(proj_size):
    """ValueError where a layer without projection is asked for one."""
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Layers of simple recurrences, `nonlinearity` 'tanh' or 'relu'; see `RNNBase` for the other options."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
                 batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None,
                 proj_size=None):
        refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory: (outputs, (hidden, cell)); see `RNNBase` for the options."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)

    def get_expected_cell_size(self, input, batch_sizes):
        """(layers * directions, batch, hidden)."""
        return self._expected_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes):
        """Check an input and a first (hidden, cell)."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")


class GRU(RNNBase):
    """Layers of gated recurrent units: (outputs, hidden); see `RNNBase` for the options."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None, proj_size=None):
        refuse_projection(proj_size)
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)
