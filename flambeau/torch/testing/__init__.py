"""torch.testing: `assert_close` and `make_tensor`."""

from flambeau.torch import _mirror
from flambeau.torch.testing._comparison import assert_allclose, assert_close
from flambeau.torch.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

__getattr__, __dir__ = _mirror.mirror(__name__)
