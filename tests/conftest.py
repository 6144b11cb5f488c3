"""What all tests share: importing the facade chooses for the whole process, so each test gets its own choice."""

import pytest

from flambeau.tensor.rng import set_stream
from flambeau.types.dtype import set_repr_prefix

FACADE_TESTS = ("torch", "parity")


@pytest.fixture(autouse=True)
def choices(request):
    """`torch.float32` and PyTorch's random numbers in the tests of the facade; everywhere else the house's."""
    facade = request.path.parent.name in FACADE_TESTS
    set_repr_prefix("torch" if facade else "flambeau")
    set_stream("pytorch" if facade else "counter")
    yield
    set_repr_prefix("flambeau")
    set_stream("counter")
