"""torch.cuda.graphs: recording the launches of a CUDA device is refused."""

from flambeau.torch import _absent

CUDAGraph, graph = (_absent.refused_class("cuda", name) for name in ("CUDAGraph", "graph"))
globals().update(_absent.answered(False, "is_current_stream_capturing"),
                 **_absent.refused("cuda", "graph_pool_handle", "make_graphed_callables"))
