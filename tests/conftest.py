"""What all tests share: importing the facade renames dtypes for the whole process, so each test gets its own spelling."""

import pytest

from flambeau.types.dtype import set_repr_prefix

FACADE_TESTS = ("torch", "parity")


@pytest.fixture(autouse=True)
def spelling(request):
    """`torch.float32` in the tests of the facade, `flambeau.float32` everywhere else."""
    set_repr_prefix("torch" if request.path.parent.name in FACADE_TESTS else "flambeau")
    yield
    set_repr_prefix("flambeau")
