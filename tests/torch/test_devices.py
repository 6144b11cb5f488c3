"""Devices: the CPU is there, meta has shapes, everything else can be named, asked for and set, and is refused
when used.
"""

import pickle

import pytest

from flambeau import torch
from flambeau.torch import nn


# ---------------------------------------------------------------------------------- naming
def test_devices_are_named_in_all_ways():
    assert torch.device("cuda",
        1) == torch.device("cuda:1") == pickle.loads(pickle.dumps(torch.device("cuda:1")))
    assert torch.device("mps").type == "mps" and torch.device("cuda").index is None
    assert repr(torch.device("cuda", 0)) == "device(type='cuda', index=0)"
    assert str(torch.device("cuda", 0)) == "cuda:0"
    assert hash(torch.device("cuda:1")) == hash(torch.device("cuda",
        1)) and torch.device("cpu") != torch.device("cpu:0")
    assert torch.device("cpu") != "cpu" and torch.device(type="cpu", index=0).index == 0
    for name in ("gpu", "cuda:x", ""):
        with pytest.raises(RuntimeError, match="unknown device type|number of 0 or more"):
            torch.device(name)


USES = {
    "factory": lambda d: torch.zeros(2, device=d), "range": lambda d: torch.arange(3, device=d),
    "tensor": lambda d: torch.tensor([1.0], device=d),
    "as_tensor": lambda d: torch.as_tensor([1.0], device=d),
    "random": lambda d: torch.randn(2, device=d), "like": lambda d: torch.zeros_like(torch.ones(2), device=d),
    "randint_like": lambda d: torch.randint_like(torch.ones(2), 3, device=d),
    "eye": lambda d: torch.eye(2, device=d),
    "permutation": lambda d: torch.randperm(3, device=d), "window": lambda d: torch.hann_window(4, device=d),
    "indices": lambda d: torch.tril_indices(2, 2, device=d),
    "frequencies": lambda d: torch.fft.fftfreq(4, device=d),
    "sparse": lambda d: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device=d),
    "new_zeros": lambda d: torch.ones(1).new_zeros(2, device=d), "to": lambda d: torch.ones(2).to(d),
    "to with a dtype": lambda d: torch.ones(2).to(d, torch.float64),
    "module": lambda d: nn.Linear(2, 2, device=d),
    "module.to": lambda d: nn.Linear(2, 2).to(d),
    "block": lambda d: torch.device(d).__call__(lambda: torch.ones(1))(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "xpu"])
def test_using_a_device_that_is_not_here_says_how_to_go_on(name, use):
    for kind in (AssertionError, RuntimeError, NotImplementedError):
        with pytest.raises(kind, match=r"there is no \w+ device here(.|\n)*hint: .*torch.cuda.is_available"):
            USES[use](name)


def test_cuda_methods_and_bare_numbers_are_refused_too():
    for call in (lambda: torch.ones(1).cuda(), lambda: nn.Linear(1, 1).cuda(), lambda: torch.ones(1).xpu(),
                 lambda: torch.ones(1).type("torch.cuda.FloatTensor"), lambda: torch.Generator("cuda"),
                 lambda: torch.ones(1).type(torch.cuda.HalfTensor), lambda: torch.cuda.FloatTensor(2)):
        with pytest.raises(AssertionError, match="device here"):
            call()
    for call in (lambda: torch.ones(1).to(0), lambda: torch.zeros(1, device=0), lambda: torch.device(0)):
        with pytest.raises(RuntimeError, match="there is none here"):
            call()


def test_the_cpu_is_one_device_by_any_number():
    assert torch.zeros(2, device="cpu:0").device == torch.ones(1).to("cpu:3").device == torch.device("cpu")
    x = torch.ones(2)
    assert x.to("cpu") is x and x.cpu() is x and x.to(torch.device("cpu"), non_blocking=True) is x
    assert x.get_device() == -1 and not x.is_cuda and x.is_cpu and not x.is_pinned()


# ------------------------------------------------------------------------------ meta and the default device
def test_meta_has_shapes_only():
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
        huge = nn.Linear(10 ** 6, 10 ** 6)
        encoder = nn.Transformer(16, 2, 1, 1, 16)
    members = [*model.parameters(), *model.buffers(), *encoder.parameters(), huge.weight]
    assert {member.device.type for member in members} == {"meta"} and torch.ones(1).device.type == "cpu"
    assert model(torch.zeros(5, 1, 4, 4, device="meta")).shape == (5, 3)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        model.to("cpu")
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        torch.zeros(2, device="meta").cpu()


def test_meta_modules_get_their_values_later():
    real = nn.Linear(3, 2)
    with torch.device("meta"):
        empty = nn.Linear(3, 2)
    empty.load_state_dict(real.state_dict(), assign=True)
    assert torch.equal(empty(torch.ones(1, 3)), real(torch.ones(1, 3)))
    assert isinstance(empty.weight, nn.Parameter) and empty.weight.requires_grad
    fresh = nn.Linear(3, 2, device="meta").to_empty(device="cpu")
    fresh.load_state_dict(real.state_dict())
    assert torch.equal(fresh.weight, real.weight) and fresh.weight.device.type == "cpu"


def test_the_default_device():
    assert torch.get_default_device() == torch.device("cpu")
    try:
        torch.set_default_device("meta")
        assert torch.get_default_device().type == torch.zeros(2).device.type == torch.tensor([1]).device.type == "meta"
        assert nn.BatchNorm1d(2).num_batches_tracked.device.type == "meta"
        with torch.device("cpu"):
            assert torch.ones(2).tolist() == [1, 1]
        assert torch.ones(2, device="cpu").new_zeros(2).tolist() == [0, 0]
        assert torch.ones(2, device="cpu").to(torch.float64).sum() == 2
        torch.set_default_device("cuda")
        with pytest.raises(AssertionError, match="no CUDA device"):
            torch.zeros(2)
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


def test_a_device_decorates_a_function():
    @torch.device("meta")
    def make():
        """Documented."""
        return torch.zeros(2)

    assert make().is_meta and make.__doc__ == "Documented." and not torch.zeros(2).is_meta


# ---------------------------------------------------------------------------------- torch.cuda and its kin
def test_cuda_is_harmless_without_a_device():
    cuda = torch.cuda
    assert not (cuda.is_available() or cuda.is_initialized()
        or cuda.is_bf16_supported()) and cuda.device_count() == 0
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated",
        "ipc_collect"):
        assert getattr(cuda, name)() is None
    assert cuda.manual_seed(1) is None and cuda.manual_seed_all(1) is None and cuda.get_rng_state_all() == []
    assert cuda.memory_allocated(0) == cuda.max_memory_allocated() == cuda.memory_reserved() == 0
    assert cuda.memory_stats() == {} and cuda.get_arch_list() == [] and cuda.default_generators == ()
    assert cuda.memory_summary().splitlines()[0].split() == ["memory", "amount", "meaning"]
    assert issubclass(cuda.OutOfMemoryError, RuntimeError) and cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.Tensor is not cuda.FloatTensor and not isinstance(torch.ones(1), cuda.FloatTensor)


def test_cuda_refuses_what_needs_a_device():
    for name in ("current_device", "get_device_name", "get_device_capability", "get_device_properties",
        "_lazy_init",
                 "init", "mem_get_info", "get_rng_state", "CUDAGraph", "graph"):
        with pytest.raises(AssertionError, match=rf"\[cuda.{name}\] there is no CUDA device here"):
            getattr(torch.cuda, name)()
    with pytest.raises(AssertionError):
        torch.cuda.set_device(0)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        torch.cuda.set_device("cpu")
    assert torch.cuda.set_device(-1) is None
    with pytest.raises(AssertionError):
        with torch.cuda.device(0):
            pass
    with torch.cuda.device(-1), torch.cuda.device_of(torch.ones(1)):
        pass


def test_streams_and_events_do_nothing_but_tell_the_time():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.nvtx.range("part"):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record(stream)
    end.synchronize()
    stream.wait_stream(torch.cuda.current_stream())
    assert start.elapsed_time(end) >= 0 and stream.query()
    with pytest.raises(RuntimeError, match="must be recorded"):
        torch.cuda.Event().elapsed_time(end)


def test_accelerators():
    accelerator = torch.accelerator
    assert accelerator.is_available() is False and accelerator.current_accelerator() is None
    assert accelerator.device_count() == 0 and accelerator.memory_allocated() == 0
    accelerator.synchronize()
    with pytest.raises(RuntimeError, match="there is no accelerator here"):
        accelerator.set_device_index(0)
    device = accelerator.current_accelerator().type if accelerator.is_available() else "cpu"
    assert torch.ones(1, device=device).device.type == "cpu"
    for module in (torch.mps, torch.xpu, torch.mtia):
        assert not module.is_available() and module.device_count() == 0
        module.manual_seed(0), module.empty_cache(), module.synchronize()
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1
    assert torch.get_device_module() is torch.cpu
    assert torch.get_device_module("cuda") is torch.cuda
    with pytest.raises(RuntimeError, match="does not have a corresponding module"):
        torch.get_device_module("meta")


# ---------------------------------------------------------------------------------- switches
def test_backends_can_be_set_and_read():
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False, True)
    cudnn.deterministic, cudnn.allow_tf32 = True, False
    assert cudnn.deterministic and not cudnn.allow_tf32 and not cudnn.is_available()
    assert cudnn.version() is None
    with cudnn.flags(enabled=False, deterministic=False, allow_tf32=True):
        assert not cudnn.enabled and not cudnn.deterministic and cudnn.allow_tf32
    assert cudnn.enabled and cudnn.deterministic and not cudnn.allow_tf32
    cudnn.set_flags(True, False, 10, False, True)
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = True
    assert matmul.allow_tf32 and not torch.backends.cuda.is_built()
    matmul.allow_tf32 = False
    with pytest.raises(AttributeError):
        matmul.unheard_of
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.math_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(True)
    with torch.backends.cuda.sdp_kernel(enable_flash=False), torch.backends.mkldnn.flags(enabled=False):
        assert not torch.backends.cuda.flash_sdp_enabled() and not torch.backends.mkldnn.enabled
    assert torch.backends.cuda.flash_sdp_enabled() and torch.backends.mkldnn.enabled
    backends = torch.backends
    assert not (backends.mps.is_available() or backends.mps.is_built() or backends.mkl.is_available())
    assert not (backends.openmp.is_available() or backends.opt_einsum.is_available()
        or backends.xnnpack.enabled)
    assert backends.quantized.engine in backends.quantized.supported_engines
    assert backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")


def test_attention_backends():
    from flambeau.torch.nn.attention import SDPBackend, sdpa_kernel
    x = torch.ones(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape


def test_process_wide_switches():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        torch.set_default_dtype(torch.float64)
        assert torch.ones(1).dtype is torch.get_default_dtype() is torch.float64
        with pytest.warns(UserWarning, match="deprecated"):
            torch.set_default_tensor_type(torch.FloatTensor)
        assert torch.ones(1).dtype is torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_versions_compare():
    version = torch.__version__
    assert isinstance(version, str) and tuple(map(int, version.split("+")[0].split("."))) >= (2, 0, 0)
    assert version > "2.9" and version >= (2,
        13) and version < "3" and not version < "2.9.1" and version != "2.13"
    assert torch.torch_version.TorchVersion("2.1.0rc1") < "2.1" < torch.torch_version.TorchVersion("2.1.0+cpu")
    assert torch.version.cuda is None and torch.version.hip is None and torch.version.__version__ == version
    assert "Flambeau" in torch.__config__.show() and "get_num_threads" in torch.__config__.parallel_info()
