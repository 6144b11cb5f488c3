"""torch._inductor.config: settings that are kept and have no effect."""

from flambeau.torch import _compiled

_compiled.settings(
    __name__, "torch._inductor.config", max_autotune=False, max_autotune_gemm=False, max_autotune_pointwise=False,
    max_autotune_gemm_backends="ATEN,TRITON,CPP", coordinate_descent_tuning=False, epilogue_fusion=True,
    fx_graph_cache=True, fx_graph_remote_cache=None, autotune_local_cache=True, force_disable_caches=False,
    shape_padding=True, freezing=False, debug=False, compile_threads=1, cpp_wrapper=False,
    layout_optimization=True,
    force_fuse_int_mm_with_mul=False, use_mixed_mm=False, joint_graph_constant_folding=True,
    fallback_random=False,
    conv_1x1_as_mm=False, coordinate_descent_check_all_directions=False, benchmark_kernel=False,
    pattern_matcher=True,
    reorder_for_compute_comm_overlap=False, emulate_precision_casts=False, dce=False,
    triton=_compiled.Config("torch._inductor.config.triton", cudagraphs=False, cudagraph_trees=True,
                            unique_kernel_names=True, cudagraph_skip_dynamic_graphs=False,
        tiling_prevents_pointwise_fusion=True),
    cpp=_compiled.Config("torch._inductor.config.cpp", threads=-1, simdlen=None, weight_prepack=True,
                         enable_kernel_profile=False, cxx=("g++",), vec_isa_ok=None),
    trace=_compiled.Config("torch._inductor.config.trace", enabled=False, graph_diagram=False,
        debug_dir=None),
    cuda=_compiled.Config("torch._inductor.config.cuda", arch=None))
