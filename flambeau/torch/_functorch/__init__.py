"""torch._functorch: transforms of functions stand in `torch.func`."""

from flambeau.torch import _compiled, _mirror

config = _compiled.Config("torch._functorch.config", functionalize_rng_ops=False, fake_tensor_allow_meta=True,
                          activation_memory_budget=1.0, donated_buffer=True, enable_autograd_cache=True)

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.func")
