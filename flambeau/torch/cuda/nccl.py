"""torch.cuda.nccl: not there."""

from flambeau.torch import _absent

globals().update(_absent.answered(False, "is_available"),
                 **_absent.refused("cuda", "version", "unique_id", "all_reduce"))
