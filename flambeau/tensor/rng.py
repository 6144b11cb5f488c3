"""Generators, and the choice of the stream that all of them draw from.

'counter': a seed and a count of draws; each draw gets a key of its own, from which kernels make its elements
(docs/decisions/0010-counter-based-random.md). 'pytorch': the Mersenne Twister, with PyTorch's draws in
PyTorch's order (`stream.py`). The choice holds for the process: `set_stream`, or `using_stream` for a while.
Importing the facade chooses 'pytorch'.
"""

import contextlib
import ctypes
import os

from flambeau.base.choices import chosen, set_stream
from flambeau.base.errors import ArgumentError, fail
from flambeau.runtime._core import CounterKeys, MersenneTwister, Tensor, empty_strided
from flambeau.types.device import as_device, missing
from flambeau.types.dtype import uint8

COUNTER_BYTES = 16
WORD64 = 1 << 64


class SeedError(ValueError, RuntimeError):
    """A seed that does not fit 64 bits: PyTorch raises either, depending on the call."""


def _whole(seed):
    """A seed as an int, by int()'s own rules."""
    try:
        return int(seed)
    except (TypeError, ValueError) as error:
        fail("manual_seed", str(error), repr(seed), "a whole number", kind=type(error))


@contextlib.contextmanager
def using_stream(name):
    """Draw from the stream `name` in a `with` block.

    >>> with using_stream("pytorch"):
    ...     Generator().manual_seed(0).get_state().numel()
    5056
    """
    before = chosen.pytorch
    set_stream(name)
    try:
        yield
    finally:
        chosen.pytorch = before


class Generator:
    """A source of random draws.

    >>> g = Generator().manual_seed(0)
    """

    def __init__(self, device="cpu"):
        self.device = as_device(device)
        if self.device.type != "cpu":
            missing(self.device, "Generator")
        self.counter, self.twister = CounterKeys(), MersenneTwister()
        self.manual_seed(67280421310721)

    def manual_seed(self, seed):
        """Start again from `seed`; returns the generator."""
        seed = _whole(seed)
        if not -(1 << 63) <= seed < WORD64:
            raise SeedError(f"Overflow when unpacking long long: the seed {seed} does not fit 64 bits")
        self._start(seed % WORD64, 0)
        self.twister.seed(self.seed_value)
        return self

    def _start(self, seed, draws):
        self.counter.seed, self.counter.draws = seed, draws

    @property
    def seed_value(self):
        return self.counter.seed

    def initial_seed(self):
        """The seed that it started from."""
        return self.seed_value

    def seed(self):
        """Start from a seed that the system gives, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.seed_value

    def key(self):
        """The key of the next draw, an int64."""
        if not chosen.pytorch:
            return self.counter.key()
        bits = self.twister.bits()
        return bits - WORD64 if bits >= 1 << 63 else bits

    def get_state(self):
        """The state as a uint8 tensor: PyTorch's 5056 bytes, or 16 of the seed and the count of draws."""
        data = self._bytes()
        state = empty_strided((len(data),), None, uint8)
        ctypes.memmove(state.data_ptr(), data, len(data))
        return state

    def _bytes(self):
        if chosen.pytorch:
            return self.twister.to_bytes()
        return self.seed_value.to_bytes(8, "little") + self.counter.draws.to_bytes(8, "little")

    def set_state(self, state):
        """Take over what `get_state` gave; returns the generator."""
        if not isinstance(state, Tensor) or state.dtype is not uint8:
            fail("set_state", "RNG state must be a torch.ByteTensor",
                 getattr(state, "dtype", type(state).__name__), "what get_state() gave", kind=ArgumentError)
        state = state.contiguous()
        self._take(ctypes.string_at(state.data_ptr(), state.numel()))
        return self

    def _take(self, data):
        if len(data) == COUNTER_BYTES:
            self._start(*(int.from_bytes(data[i:i + 8], "little") for i in (0, 8)))
            self.twister.seed(self.seed_value)
        else:
            self.twister.from_bytes(data)
            self.counter.seed = self.twister.initial_seed

    def clone_state(self):
        """A generator of its own in the same state."""
        made = Generator(self.device)
        made.__setstate__(self.__getstate__())
        return made

    def graphsafe_get_state(self):
        """The generator that holds the state: this one's clone."""
        return self.clone_state()

    def graphsafe_set_state(self, state):
        """Take over the state of another generator."""
        self.__setstate__(state.__getstate__())
        return self

    def get_offset(self):
        """Counters of a device's generator: there is none here."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset):
        """Counters of a device's generator: there is none here."""
        raise RuntimeError("CPU Generator does not use offset")

    def __getstate__(self):
        return {"seed": self.seed_value, "draws": self.counter.draws, "twister": self.twister.to_bytes()}

    def __setstate__(self, state):
        if not hasattr(self, "counter"):
            Generator.__init__(self)
        self._start(state["seed"], state["draws"])
        self.twister.from_bytes(state["twister"])


default_generator = Generator()
if chosen.pytorch:           # in PyTorch a program that sets no seed draws other numbers at every run
    default_generator.seed()


def manual_seed(seed):
    """Seed the default generator."""
    return default_generator.manual_seed(seed)


def seed():
    """Seed the default generator from the system."""
    return default_generator.seed()


def initial_seed():
    return default_generator.initial_seed()


def get_rng_state():
    return default_generator.get_state()


def set_rng_state(state):
    default_generator.set_state(state)


def source_of(generator):
    """`generator`, or the default one for None; TypeError for anything else."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        fail("generator", "a source of random numbers is a Generator or None", type(generator).__name__,
             hint="generator=Generator().manual_seed(0)", kind=ArgumentError)
    return generator


def next_key(generator=None):
    """The key of the next draw of `generator` (None: the default one)."""
    return source_of(generator).key()
