"""torch._dynamo: there is no capture of programs yet; what is compiled runs as it is (see
`torch.compile`).
"""

from flambeau.torch import _absent, _compiled, _mirror
from flambeau.torch._compiled import (InvalidBackend, OptimizedModule, list_backends, lookup_backend,
    register_backend,
                                      set_stance)
from flambeau.torch._compiled import plain as disable
from flambeau.torch._dynamo import config
from flambeau.torch.compiler import allow_in_graph, assume_constant_result, substitute_in_graph

globals().update(_absent.nothing("reset", "reset_code_caches", "graph_break", "mark_dynamic",
    "maybe_mark_dynamic",
                                 "mark_static", "mark_static_address", "mark_unbacked", "forbid_in_graph"),
                 **_absent.answered(False, "is_compiling"))
export, explain = (_compiled.refused(f"torch._dynamo.{name}") for name in ("export", "explain"))


def disallow_in_graph(fn):
    """`fn` itself."""
    return fn


run = forbid_in_graph = disallow_in_graph


def optimize(backend="inductor", *, nopython=False, dynamic=None, disable=False, **options):
    """The decorator `torch.compile(backend=...)` by its older name."""
    return _compiled.compile(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend, **options):
    """`optimize(backend, nopython=True)`"""
    return optimize(backend, nopython=True)


__getattr__, __dir__ = _mirror.mirror(__name__)
