"""Messages between a loader and its workers: small ones through a pipe, large data through shared memory.

A `Channel` is one end of the line. It pickles a message; whatever offers a buffer of `LARGE` bytes or more
(tensors, NumPy arrays, and the pickle itself if it is long) goes to a *slot*, a piece of shared memory that
both ends map, and only its number travels. The receiver builds its tensors right on the slot, without a copy.
When the last of them is gone it gives the slot back with its next message, and the sender uses it again:
after the first few batches no memory is made, mapped or cleared any more.

    sender      Slots: take -> Lease (held while a tensor of the sender uses it), away: how often it was sent
    receiver    Arrived: a buffer on the slot that tensors keep alive; its end is noted in `Channel.read`
"""

import ctypes
import io
import os
import pickle
import socket
from multiprocessing import reduction

from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import shared
from flambeau.tensor.parameter import Parameter

LARGE = 1 << 14         # bytes from which on a buffer travels in shared memory
FREE_SLOTS = 8          # free slots that are kept for later messages


# ---------------------------------------------------------------------------------- the sender's memory
class Slot:
    """Shared memory of this process: `holders` use it here, `away` counts buffers that the receiver still
    uses.

    A `spent` slot is seen by a third process and is not used again.
    """

    __slots__ = ("number", "mapping", "size", "holders", "away", "spent")

    def __init__(self, number, mapping, size):
        self.number, self.mapping, self.size = number, mapping, size
        self.holders = self.away = 0
        self.spent = False


class Lease:
    """Keeps a slot from being used again, until it dies."""

    __slots__ = ("slots", "slot")

    def __init__(self, slots, slot):
        self.slots, self.slot = slots, slot
        slot.holders += 1

    def __del__(self):
        self.slot.holders -= 1
        self.slots.rest(self.slot)


class Slots:
    """The shared memory that one end of a channel sends from."""

    def __init__(self):
        self.slots, self.free, self.count = {}, [], 0
        self.opened = []        # (number, size, descriptor) that the receiver has to be told
        self.dropped = []       # numbers likewise

    def take(self, size):
        """A Lease of a slot of at least `size` bytes."""
        fitting = [slot for slot in self.free if size <= slot.size <= max(4 * size, 1 << 16)]
        if fitting:
            slot = min(fitting, key=lambda slot: slot.size)
            self.free.remove(slot)
            return Lease(self, slot)
        step = max(4096, 1 << max(size.bit_length() - 3, 0))        # a few sizes, so that slots fit again
        size = -(-size // step) * step
        descriptor = shared.nameless_file(size)
        slot = Slot(self.count, shared.Mapping(descriptor, size), size)
        self.slots[slot.number] = slot
        self.count += 1
        self.opened.append((slot.number, size, descriptor))
        return Lease(self, slot)

    def rest(self, slot):
        """Keep a slot that nobody uses any more, for later."""
        if slot.holders or slot.away or slot.number not in self.slots:
            return
        if slot.spent:
            self.drop(slot)
            return
        self.free.append(slot)
        in_use = len(self.slots) - len(self.free)
        if len(self.free) > max(FREE_SLOTS, in_use):        # a batch of many fields has many slots
            self.drop(self.free.pop(0))

    def drop(self, slot):
        del self.slots[slot.number]
        self.dropped.append(slot.number)

    def back(self, read):
        """The receiver has done with these: (number, whether the slot may be used again)."""
        for number, clean in read:
            slot = self.slots[number]
            slot.away -= 1
            slot.spent |= not clean
            self.rest(slot)

    def holding(self, address):
        """The slot in which an address lies, or None."""
        for slot in self.slots.values():
            if 0 <= address - slot.mapping.address < slot.size and slot.holders:
                return slot
        return None

    def close(self):
        """Forget what was never sent."""
        for *_, descriptor in self.opened:
            os.close(descriptor)
        self.opened = []

    def tensor(self, dtype, shape):
        """An empty row-major tensor in a slot."""
        count, strides = 1, []
        for size in reversed(shape):
            strides.append(count)
            count *= size
        nbytes = count * dtype.itemsize
        lease = self.take(nbytes)
        address = lease.slot.mapping.address
        return _core.from_memory(address, nbytes, lease, tuple(shape), tuple(strides[::-1]), 0, dtype)


# ---------------------------------------------------------------------------------- the receiver's memory
class Arrived:
    """A buffer on a slot of the other end, which hears of its end.

    A process that was forked in the meantime sees the buffer too; then the slot is not clean, and never
    written again.
    """

    __slots__ = ("mapping", "number", "read", "born")
    forks = 0

    def __init__(self, mapping, number, read):
        self.mapping, self.number, self.read, self.born = mapping, number, read, Arrived.forks

    def __del__(self):
        self.read.append((self.number, self.born == type(self).forks))


def count_fork():
    Arrived.forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=count_fork)


# ---------------------------------------------------------------------------------- tensors in pickles
class MessagePickler(reduction.ForkingPickler):
    """multiprocessing's pickler, which hands the memory of tensors out as buffers."""

    def __init__(self, file, buffer_callback):
        super().__init__(file, 5, True, buffer_callback)
        self.dispatch_table = {**self.dispatch_table, Tensor: reduce_tensor, Parameter: reduce_tensor}


def reduce_tensor(tensor):
    """A tensor as a buffer and its layout."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("a tensor that was computed from others that require grad cannot leave a worker: the "
                           "tape does not cross processes\n  hint: return tensor.detach()")
    if tensor.is_shape_only:
        return tensor.__reduce_ex__(4)
    shape, strides = tuple(tensor.shape), tensor.stride()
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides))
    if tensor.numel() == 0:
        return shared.rebuild_empty, (type(tensor), tensor.dtype, shape, tensor.requires_grad)
    source = tensor
    if span > tensor.numel():
        source = tensor.detach().contiguous()
        strides, span = source.stride(), source.numel()
    memory = (ctypes.c_ubyte * (span * source.element_size())).from_address(source.data_ptr())
    memory.owner = source
    return rebuild_tensor, (type(tensor), pickle.PickleBuffer(memory), tensor.dtype, shape, strides,
                            tensor.requires_grad)


def rebuild_tensor(kind, memory, dtype, shape, strides, requires_grad):
    """The tensor on the memory that arrived."""
    if not isinstance(memory, ctypes.Array):
        memory = (ctypes.c_ubyte * len(memory)).from_buffer(memory)
    made = _core.from_memory(ctypes.addressof(memory), len(memory), memory, shape, strides, 0, dtype)
    return shared.as_kind(made, kind, requires_grad) if requires_grad or kind is Parameter else made


# ---------------------------------------------------------------------------------- channels
class Channel:
    """One end of the line between a loader and a worker, over a connection of multiprocessing."""

    def __init__(self, pipe):
        self.pipe, self.slots, self.mappings, self.read = pipe, Slots(), {}, []
        self.in_memory = reduction.HAVE_SEND_HANDLE and os.name == "posix"

    def fileno(self):
        return self.pipe.fileno()

    def send(self, message):
        """Send an object; it is pickled whole before anything leaves, so a failure sends nothing."""
        buffers, leases = [], []        # (number, offset, size) of those in slots

        def place(buffer):
            """Put a buffer into a slot; True: it is small and stays in the pickle."""
            raw = buffer.raw()
            if raw.nbytes < LARGE or not self.in_memory:
                return True
            slot, offset = self._slot_of(raw)
            if slot is None:
                leases.append(self.slots.take(raw.nbytes))
                slot, offset = leases[-1].slot, 0
                memory = (ctypes.c_ubyte * raw.nbytes).from_address(slot.mapping.address)
                memoryview(memory).cast("B")[:] = raw.cast("B")
            slot.away += 1
            buffers.append((slot.number, offset, raw.nbytes))
            return False

        file = io.BytesIO()
        try:
            MessagePickler(file, place).dump(message)
            data = file.getvalue()
            if place(pickle.PickleBuffer(data)) is False:
                data = None
        except BaseException:
            for number, *_ in buffers:
                self.slots.slots[number].away -= 1
            raise
        self._post(buffers, data)

    def _slot_of(self, raw):
        if not isinstance(raw.obj, ctypes.Array):
            return None, 0
        address = ctypes.addressof(raw.obj)
        slot = self.slots.holding(address)
        return slot, 0 if slot is None else address - slot.mapping.address

    def _post(self, buffers, data):
        read = []
        while self.read:
            read.append(self.read.pop())
        opened, self.slots.opened = self.slots.opened, []
        dropped, self.slots.dropped = self.slots.dropped, []
        head = ([(number, size) for number, size, _ in opened], dropped, read, buffers, data)
        try:
            self.pipe.send_bytes(pickle.dumps(head, pickle.HIGHEST_PROTOCOL))
            for *_, descriptor in opened:
                send_descriptor(self.pipe, descriptor)
        finally:
            for *_, descriptor in opened:
                os.close(descriptor)

    def receive(self):
        """The next object; EOFError if the other end is gone."""
        opened, dropped, back, buffers, data = pickle.loads(self.pipe.recv_bytes())
        for number, size in opened:
            descriptor = receive_descriptor(self.pipe)
            try:
                self.mappings[number] = shared.Mapping(descriptor, size)
            finally:
                os.close(descriptor)
        self.slots.back(back)
        arrived = [self._buffer(*place) for place in buffers]
        for number in dropped:
            del self.mappings[number]
        return pickle.loads(arrived.pop() if data is None else data, buffers=arrived)

    def _buffer(self, number, offset, size):
        mapping = self.mappings[number]
        memory = (ctypes.c_ubyte * size).from_address(mapping.address + offset)
        memory.owner = Arrived(mapping, number, self.read)
        return memory

    def close(self):
        self.pipe.close()
        self.slots.close()


def send_descriptor(pipe, descriptor):
    """Send a descriptor behind a message."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as line:
        socket.send_fds(line, [b"d"], [descriptor])


def receive_descriptor(pipe):
    """The descriptor that follows a message."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as line:
        _, descriptors, *_ = socket.recv_fds(line, 1, 1)
    if not descriptors:
        raise EOFError
    return descriptors[0]
