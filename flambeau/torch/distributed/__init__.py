"""torch.distributed: the names, so that programs which ask first run; working in several processes is
refused."""

import enum

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals


def _no():
    """False."""
    return False


is_available = is_initialized = is_gloo_available = is_mpi_available = is_nccl_available = (
    is_ucc_available
) = _no
is_xccl_available = is_torchelastic_launched = _no


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class group:  # noqa: N801 - PyTorch's name
    """The group of all processes: there is none."""

    WORLD = None


class GroupMember:
    """The same under an older name."""

    WORLD = NON_GROUP_MEMBER = None


globals().update(
    _refusals.classes(
        __name__,
        "Backend",
        "DistBackendError",
        "FileStore",
        "HashStore",
        "P2POp",
        "PrefixStore",
        "ProcessGroup",
        "Store",
        "TCPStore",
        "Work",
    )
)
globals().update(_refusals.functions(__name__, "init_process_group", "init_device_mesh"))
globals().update(
    _refusals.uninitialized(
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_reduce",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "batch_isend_irecv",
        "broadcast",
        "broadcast_object_list",
        "destroy_process_group",
        "gather",
        "gather_object",
        "get_backend",
        "get_global_rank",
        "get_group_rank",
        "get_process_group_ranks",
        "get_rank",
        "get_world_size",
        "irecv",
        "isend",
        "monitored_barrier",
        "new_group",
        "new_subgroups",
        "recv",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "scatter_object_list",
        "send",
    )
)

__getattr__, __dir__ = _mirror.mirror(__name__)
