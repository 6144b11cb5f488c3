"""Sequences of different lengths: padded to one tensor, or packed step by step without the padding."""

from collections import namedtuple

from flambeau.tensor import Tensor, cat, full, stack, tensor
from flambeau.types.dtype import float16, float32, float64, int8, int16, int32, int64, uint8

_Packed = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(_Packed):
    """The steps of a batch one after the other, longest sequence first: data (sum of lengths, ...).

    `batch_sizes` says how many sequences each step has; `sorted_indices` and `unsorted_indices` where the
    batch was sorted by length. Data and sizes may also come as one pair.
    """

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The same with the data in another dtype or on another device; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return self._replace(data=data)

    def cpu(self, *args, **kwargs):
        """The same in main memory."""
        return self.to(*args, **{"device": "cpu"} | kwargs)

    def cuda(self, *args, **kwargs):
        """The same on a GPU."""
        return self.to(*args, **{"device": "cuda"} | kwargs)

    def pin_memory(self):
        """The same with the data in pinned memory."""
        return self._replace(data=self.data.pin_memory())

    def is_pinned(self):
        """True if the data stand in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self):
        """True if the data stand on a GPU."""
        return self.data.is_cuda


def _add_casts():
    """PackedSequence.double(), float(), half(), ...: the same with the data in another dtype."""
    def cast(name, dtype):
        def method(self):
            return self.to(dtype=dtype)
        method.__name__, method.__doc__ = name, f"The same with the data in {dtype}."
        return method

    for name, dtype in (("double", float64), ("float", float32), ("half", float16), ("long", int64),
                        ("int", int32), ("short", int16), ("char", int8), ("byte", uint8)):
        setattr(PackedSequence, name, cast(name, dtype))


_add_casts()


def invert_permutation(permutation):
    """The permutation that undoes one."""
    if permutation is None:
        return None
    order = permutation.tolist()
    inverse = [0] * len(order)
    for place, index in enumerate(order):
        inverse[index] = place
    return tensor(inverse, dtype=int64)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences (length_i, ...) as one tensor (longest, batch, ...), or (batch, longest, ...) with
    `batch_first`."""
    if not hasattr(sequences, "__iter__"):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: "
                           f"{type(sequences)}")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be \"left\" or \"right\", but got \"{padding_side}\"")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(each.shape[0] for each in sequences)
    padded = []
    for each in sequences:
        missing = longest - each.shape[0]
        if missing:
            fill = full((missing, *each.shape[1:]), padding_value, dtype=each.dtype)
            each = cat((each, fill) if padding_side == "right" else (fill, each))
        padded.append(each)
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The inverse of `pad_sequence`: a list of sequences."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [each[:length] for each, length in zip(padded_sequences, _listed(lengths))]


def _listed(lengths):
    return lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Pack (longest, batch, ...) with the given lengths; sorted by length first unless `enforce_sorted`."""
    lengths = _listed(lengths)
    if not lengths or 0 in input.shape:
        raise RuntimeError("Cannot pack empty tensors.")
    order = None
    if enforce_sorted:
        if any(a < b for a, b in zip(lengths, lengths[1:])):
            raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is "
                               "True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
                               "pack_sequence to sidestep this requirement if you do not need ONNX "
                               "exportability.")
    else:
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        lengths = [lengths[i] for i in order]
    if min(lengths) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in "
                           "'lengths' that is <= 0")
    if batch_first:
        input = input.transpose(0, 1)
    if input.shape[1] != len(lengths):
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
                           f"(batch_size={input.shape[1]})")
    if lengths[0] > input.shape[0]:
        raise RuntimeError(f"start (0) + length ({lengths[0]}) exceeds dimension size ({input.shape[0]}).")
    sorted_indices = None
    if order is not None:
        sorted_indices = tensor(order, dtype=int64)
        input = input.index_select(1, sorted_indices)
    sizes = [sum(length > step for length in lengths) for step in range(lengths[0])]
    data = cat([input[step, :size] for step, size in enumerate(sizes)])
    return PackedSequence(data, tensor(sizes, dtype=int64), sorted_indices)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded sequences (longest, batch, ...), lengths (batch)) of a packed one."""
    sizes = sequence.batch_sizes.tolist()
    longest = len(sizes) if total_length is None else total_length
    if longest < len(sizes):
        raise ValueError("Expected total_length to be at least the length of the longest sequence in input, "
                         f"but got total_length={total_length} and max sequence length being {len(sizes)}")
    batch, start, steps = sizes[0], 0, []
    for size in sizes + [0] * (longest - len(sizes)):
        own = sequence.data[start:start + size]
        missing = batch - size
        if missing:
            own = cat((own, full((missing, *own.shape[1:]), padding_value, dtype=own.dtype)))
        steps.append(own)
        start += size
    padded = stack(steps)
    lengths = tensor([sum(size > i for size in sizes) for i in range(batch)], dtype=int64)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pack_sequence(sequences, enforce_sorted=True):
    """Pack a list of sequences."""
    lengths = [each.shape[0] for each in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of sequences of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences)
    return unpad_sequence(padded, lengths)
