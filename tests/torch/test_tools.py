"""Paths of the facade for tools: tensorboard, benchmark, profilers, hub, distributed, lists of tensors."""

import importlib

import pytest

import flambeau as fl
from flambeau import torch
from flambeau.types.dtype import set_repr_prefix


@pytest.fixture(autouse=True, scope="module")
def own_names_again():
    """Importing the facade chose PyTorch's names in repr for the process."""
    yield
    set_repr_prefix("flambeau")


SAME = {
    "utils.tensorboard.SummaryWriter": "flambeau.track.SummaryWriter",
    "utils.tensorboard.writer.FileWriter": "flambeau.track.FileWriter",
    "utils.tensorboard.summary.hparams": "flambeau.track.summary.hparams",
    "utils.benchmark.Timer": "flambeau.benchmark.Timer",
    "utils.benchmark.utils.common.Measurement": "flambeau.benchmark.Measurement",
    "utils.benchmark.utils.timer.Timer": "flambeau.benchmark.Timer",
    "utils.benchmark.op_fuzzers.binary.BinaryOpFuzzer": "flambeau.measure.fuzzer.BinaryOpFuzzer",
    "utils.flop_counter.FlopCounterMode": "flambeau.measure.flop_counter.FlopCounterMode",
    "profiler.profile": "flambeau.profiler.profile",
    "profiler.profiler.ProfilerAction": "flambeau.profiler.ProfilerAction",
    "autograd.profiler.profile": "flambeau.measure.autograd_profiler.profile",
    "autograd.profiler.record_function": "flambeau.profiler.record_function",
    "autograd.profiler_util.EventList": "flambeau.measure.events.EventList",
    "hub.load": "flambeau.hub.load",
    "hub.HASH_REGEX": "flambeau.hub.HASH_REGEX",
    "utils.model_zoo.load_url": "flambeau.hub.load_state_dict_from_url",
    "utils.dlpack.from_dlpack": "flambeau.tensor.dlpack.from_dlpack",
    "distributed.distributed_c10d.ReduceOp": "flambeau.torch.distributed.ReduceOp",
    "distributed._tensor.Shard": "flambeau.torch.distributed.tensor.Shard",
    "distributed.fsdp.api.ShardingStrategy": "flambeau.torch.distributed.fsdp.ShardingStrategy",
}


@pytest.mark.parametrize("path", SAME)
def test_one_object_under_both_names(path):
    module, _, name = f"flambeau.torch.{path}".rpartition(".")
    source, _, other = SAME[path].rpartition(".")
    assert getattr(importlib.import_module(module), name) is getattr(importlib.import_module(source), other)


def test_without_a_process_group():
    distributed = torch.distributed
    assert (
        not distributed.is_available()
        and not distributed.is_initialized()
        and not distributed.is_nccl_available()
    )
    for name in (
        "get_rank",
        "get_world_size",
        "barrier",
        "all_reduce",
        "get_backend",
        "destroy_process_group",
    ):
        with pytest.raises(ValueError, match=f"{name}.*Default process group has not been initialized"):
            getattr(distributed, name)()
    with pytest.raises(RuntimeError, match=r"distributed.init_process_group\] working in several processes"):
        distributed.init_process_group("gloo")
    assert distributed.ReduceOp.SUM is distributed.ReduceOp["SUM"] and distributed.group.WORLD is None


@pytest.mark.parametrize(
    "module, name",
    [
        ("distributed.device_mesh", "DeviceMesh"),
        ("distributed.device_mesh", "init_device_mesh"),
        ("distributed.fsdp", "FullyShardedDataParallel"),
        ("distributed.fsdp.wrap", "transformer_auto_wrap_policy"),
        ("distributed.tensor.parallel", "ColwiseParallel"),
        ("distributed.checkpoint", "save"),
        ("distributed.rpc", "init_rpc"),
        ("distributed.optim", "DistributedOptimizer"),
        ("distributed.algorithms.join", "Join"),
    ],
)
def test_names_for_several_processes_are_imported_but_not_called(module, name):
    found = getattr(importlib.import_module(f"flambeau.torch.{module}"), name)
    with pytest.raises(
        RuntimeError, match=f"{module}.{name}" if name != "init_device_mesh" else "init_device_mesh"
    ):
        found()
    assert not isinstance(found, type) or not isinstance(3, found)


def test_record_of_errors_is_the_function():
    from flambeau.torch.distributed.elastic.multiprocessing.errors import record

    assert record(len) is len


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.utils.cpp_extension.load_inline(name="x", cpp_sources=""),
        lambda: torch.utils.cpp_extension.CppExtension("x", []),
        lambda: torch.utils.mobile_optimizer.optimize_for_mobile(None),
    ],
)
def test_refusals(call):
    with pytest.raises(NotImplementedError):
        call()
    assert torch.utils.cpp_extension.CUDA_HOME is None


def test_environment_is_told():
    assert "Is CUDA available: False" in torch.utils.collect_env.get_pretty_env_info()


def lists():
    return [torch.tensor([1.0, -2.5]), torch.tensor([[3.0], [0.25]])]


def numbers(tensors):
    return [tensor.tolist() for tensor in tensors]


@pytest.mark.parametrize(
    "name, operands, expected",
    [
        ("neg", (), [[-1, 2.5], [[-3], [-0.25]]]),
        ("add", (2,), [[3, -0.5], [[5], [2.25]]]),
        ("mul", ([2, 4],), [[2, -5], [[12], [1]]]),
        ("add", (lists(),), [[2, -5], [[6], [0.5]]]),
        ("mul", (torch.tensor(2.0),), [[2, -5], [[6], [0.5]]]),
        ("maximum", (lists(),), numbers(lists())),
        ("maximum", (0.5,), [[1, 0.5], [[3], [0.5]]]),
        ("clamp_max", (0.5,), [[0.5, -2.5], [[0.5], [0.25]]]),
        ("pow", (2,), [[1, 6.25], [[9], [0.0625]]]),
        ("addcmul", (lists(), lists(), 2), [[3, 10], [[21], [0.375]]]),
        ("addcmul", (lists(), lists(), [1, 2]), [[2, 3.75], [[21], [0.375]]]),
        ("lerp", (lists(), 0.5), numbers(lists())),
    ],
)
def test_lists_of_tensors(name, operands, expected):
    made = getattr(torch, f"_foreach_{name}")(lists(), *operands)
    assert isinstance(made, tuple) and numbers(made) == expected
    target = lists()
    assert getattr(torch, f"_foreach_{name}_")(target, *operands) is target and numbers(target) == expected


def test_lists_further():
    assert numbers(torch._foreach_add(lists(), lists(), alpha=2)) == [[3, -7.5], [[9], [0.75]]]
    assert [norm.item() for norm in torch._foreach_norm(lists(), float("inf"))] == [2.5, 3]
    assert numbers(torch._foreach_pow(2.0, [torch.tensor([1.0, 3.0])])) == [[2, 8]]
    target = lists()
    torch._foreach_copy_(target, [torch.zeros(2), torch.ones(2, 1)])
    assert numbers(target) == [[0, 0], [[1], [1]]]
    torch._foreach_zero_(target)
    assert numbers(target) == [[0, 0], [[0], [0]]]
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(lists(), lists()[:1])
    assert fl.equal(torch._foreach_max(lists())[1], torch.tensor(3.0))
