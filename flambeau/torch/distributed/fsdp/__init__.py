"""`torch.distributed.fsdp`: the names, for imports; what they do is refused."""

import enum

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(
    _refusals.classes(
        __name__,
        "FullyShardedDataParallel",
        "FSDPModule",
        "CPUOffload",
        "CPUOffloadPolicy",
        "OffloadPolicy",
        "MixedPrecision",
        "MixedPrecisionPolicy",
        "FullStateDictConfig",
        "LocalStateDictConfig",
        "ShardedStateDictConfig",
        "StateDictConfig",
        "FullOptimStateDictConfig",
        "LocalOptimStateDictConfig",
        "ShardedOptimStateDictConfig",
        "OptimStateDictConfig",
        "StateDictSettings",
        "FlatParameter",
        "UnshardHandle",
    )
)
globals().update(_refusals.functions(__name__, "fully_shard", "register_fsdp_forward_method"))


class ShardingStrategy(enum.Enum):
    """What is divided among processes."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When parameters are fetched in the backward pass."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """What state dicts hold."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


__getattr__, __dir__ = _mirror.mirror(__name__)
