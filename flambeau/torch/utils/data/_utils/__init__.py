"""torch.utils.data._utils: private in PyTorch, but libraries use some of it."""

from flambeau.data.workers import CHECK_S as MP_STATUS_CHECK_INTERVAL  # noqa: F401
from flambeau.torch.utils.data._utils import collate, pin_memory, worker  # noqa: F401
