"""Generators: a seed and a count of draws. Each draw gets a key of its own, from which the kernels make its elements."""

import os
import threading

from flambeau.ops.random import GAMMA, mix
from flambeau.types.device import as_device


class Generator:
    """A source of random draws.

    >>> g = Generator().manual_seed(0)
    """

    def __init__(self, device="cpu"):
        self.device = as_device(device)
        self.lock = threading.Lock()
        self.manual_seed(67280421310721)

    def manual_seed(self, seed):
        """Start again from `seed`; returns the generator."""
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"Overflow when unpacking long: the seed {seed} does not fit 64 bits")
        self.seed_value, self.draws = seed % (1 << 64), 0
        return self

    def initial_seed(self):
        return self.seed_value

    def seed(self):
        """Start from a seed that the system gives, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.seed_value

    def key(self):
        """The key of the next draw, an int64."""
        with self.lock:
            self.draws += 1
            count = self.draws
        bits = mix(mix(self.seed_value + GAMMA) + count * GAMMA)
        return bits - (1 << 64) if bits >= 1 << 63 else bits

    def get_state(self):
        """Seed and count as a uint8 tensor of 16 bytes."""
        from flambeau.tensor.create import tensor
        from flambeau.types.dtype import uint8
        data = self.seed_value.to_bytes(8, "little") + self.draws.to_bytes(8, "little")
        return tensor(list(data), dtype=uint8)

    def set_state(self, state):
        data = bytes(state.tolist())
        if len(data) != 16:
            raise RuntimeError(f"a generator's state has 16 bytes, got {len(data)}")
        self.seed_value, self.draws = (int.from_bytes(data[i:i + 8], "little") for i in (0, 8))
        return self


default_generator = Generator()


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


def next_key(generator=None):
    """The key of the next draw of `generator` (None: the default one)."""
    return (default_generator if generator is None else generator).key()
