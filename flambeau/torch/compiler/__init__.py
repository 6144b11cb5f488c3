"""torch.compiler: Flambeau runs compiled programs as they are, so there is nothing to reset, to leave out or
to mark.
"""

from flambeau.torch import _absent, _compiled, _mirror
from flambeau.torch._compiled import compile, list_backends, set_stance
from flambeau.torch._compiled import plain as disable
from flambeau.torch.compiler import config

globals().update(_absent.answered(False, "is_compiling", "is_dynamo_compiling", "is_exporting"),
                 **_absent.answered("inductor", "get_default_backend"),
                 **_absent.nothing("reset", "cudagraph_mark_step_begin", "set_default_backend",
                     "save_cache_artifacts",
                                   "load_cache_artifacts", "set_enable_guard_collectives"))
load_compiled_function = _compiled.refused("compiler.load_compiled_function")


def allow_in_graph(fn):
    """`fn` itself."""
    return fn


assume_constant_result = nested_compile_region = wrap_numpy = allow_in_graph


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False,
    **options):
    """A decorator that changes nothing."""
    return allow_in_graph


def _kept(guard_entries):
    return [True for _ in guard_entries]


keep_portable_guards_unsafe = keep_tensor_guards_unsafe = skip_guard_on_all_nn_modules_unsafe = _kept
skip_all_guards_unsafe = skip_guard_on_globals_unsafe = skip_guard_on_inbuilt_nn_modules_unsafe = _kept


__getattr__, __dir__ = _mirror.mirror(__name__)
