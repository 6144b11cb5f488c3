"""torch.utils.data.dataloader: the public names, and private ones that libraries test iterators for."""

from flambeau.data.dataloader import _DatasetKind, _InfiniteConstantSampler  # noqa: F401
from flambeau.data.iteration import (  # noqa: F401
    _BaseDataLoaderIter, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter)
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.data")
