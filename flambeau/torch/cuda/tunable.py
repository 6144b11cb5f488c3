"""torch.cuda.tunable: kernels of CUDA devices to choose from. There are none."""

from flambeau.torch import _absent

globals().update(_absent.answered(False, "is_enabled", "tuning_is_enabled"),
    **_absent.nothing("enable", "tuning_enable"))
