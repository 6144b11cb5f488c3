"""torch._functorch.config: settings that are kept and have no effect."""

from flambeau.torch import _compiled

_compiled.settings(
    __name__, "torch._functorch.config", enable_autograd_cache=True, functionalize_rng_ops=False,
    fake_tensor_allow_meta=True, debug_assert=False, debug_partitioner=False, donated_buffer=True,
    activation_memory_budget=1.0, ban_recompute_reductions=True, ban_recompute_used_far_apart=True,
    aggressive_recomputation=False, recompute_views=False, treat_parameters_as_free_to_save=True, cse=True,
    strict_autograd_cache=False, view_replay_for_aliased_outputs=True)
