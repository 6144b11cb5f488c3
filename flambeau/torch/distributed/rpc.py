"""`torch.distributed.rpc`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(_refusals.classes(__name__, "RRef", "TensorPipeRpcBackendOptions", "WorkerInfo"))
globals().update(
    _refusals.functions(
        __name__, "init_rpc", "get_worker_info", "remote", "rpc_async", "rpc_sync", "shutdown"
    )
)


def is_available():
    """False."""
    return False


__getattr__, __dir__ = _mirror.mirror(__name__)
