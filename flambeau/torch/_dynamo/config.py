"""torch._dynamo.config: settings that are kept and have no effect."""

from flambeau.torch import _compiled

_compiled.settings(
    __name__, "torch._dynamo.config", cache_size_limit=8, recompile_limit=8, accumulated_cache_size_limit=256,
    accumulated_recompile_limit=256, suppress_errors=False, verbose=False, dynamic_shapes=True,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True, capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False,
    optimize_ddp=True, guard_nn_modules=True, inline_inbuilt_nn_modules=True, specialize_int=False,
    error_on_recompile=False, log_file_name=None, compiled_autograd=False, repro_after=None, repro_level=2,
    raise_on_ctx_manager_usage=True, traceable_tensor_subclasses=set(), fail_on_recompile_limit_hit=False,
    force_parameter_static_shapes=True, allow_rnn=False, disable=False, print_graph_breaks=False)
