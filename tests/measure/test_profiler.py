"""Profiles: what they see, how spans nest, tables, traces, schedules; FLOP counts."""

import gzip
import json
import time

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.measure import autograd_profiler
from flambeau.measure.flop_counter import FlopCounterMode
from flambeau.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from flambeau.runtime import _core

F = nn.functional


def counted(found, **options):
    return {event.key: event.count for event in found.key_averages(**options)}


def test_ops_and_how_often():
    x = fl.rand(4, 4)
    with profile() as found:
        for _ in range(3):
            y = (x @ x).relu()
        y += 1
        y.sum()
    assert counted(found) == {"aten::matmul": 3, "aten::relu": 3, "aten::add": 1, "aten::sum": 1}
    assert [event.name for event in found.events()][:2] == ["aten::matmul", "aten::relu"]
    assert all(event.cpu_time_total > 0 for event in found.events()) and _core.get_mode() == 0


def test_results_are_those_without_a_profile():
    torch_like = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    x, y = fl.rand(7, 6), fl.tensor([0, 1, 2, 0, 1, 2, 0])
    plain = F.cross_entropy(torch_like(x), y)
    expected = fl.autograd.grad(plain, list(torch_like.parameters()))
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True):
        loss = F.cross_entropy(torch_like(x), y)
        loss.backward()
    assert loss.item() == plain.item()
    for parameter, grad in zip(torch_like.parameters(), expected):
        assert fl.equal(parameter.grad, grad)


def test_blocks_nest_and_self_time_is_the_rest():
    x = fl.rand(300, 300)
    with profile() as found:
        with record_function("outer"):
            with record_function("inner"):
                x @ x
                time.sleep(0.01)
            time.sleep(0.005)
    outer, inner, product = found.events()
    assert outer.cpu_children == [inner] and inner.cpu_parent is outer and inner.cpu_children == [product]
    assert product.cpu_time_total < inner.cpu_time_total < outer.cpu_time_total
    assert inner.self_cpu_time_total == pytest.approx(inner.cpu_time_total - product.cpu_time_total)
    assert inner.self_cpu_time_total > 9900 and 4900 < outer.self_cpu_time_total < outer.cpu_time_total - 9900
    assert found.events().self_cpu_time_total == pytest.approx(outer.cpu_time_total)
    assert found.events().total_average().count == 3


def test_backward_passes_are_seen_node_by_node():
    layer = nn.Linear(3, 2)
    with profile() as found:
        loss = layer(fl.rand(4, 3)).exp().sum()
        loss.backward()
        fl.autograd.grad(layer(fl.rand(4, 3)).sum(), [layer.weight])
    names = counted(found)
    assert names["SumBackward0"] == names["LinearBackward0"] == 2 and names["ExpBackward0"] == 1
    walk = next(event for event in found.events() if event.name == "autograd::engine::execute")
    assert [child.name for child in walk.cpu_children] == ["SumBackward0", "ExpBackward0", "LinearBackward0"]
    after = profile()
    with after:
        pass
    assert len(after.events()) == 0


def test_hooks_of_a_past_profile_are_silent():
    layer = nn.Linear(3, 2)
    with profile() as found:
        loss = layer(fl.rand(4, 3)).sum()
    count = len(found.events())
    loss.backward()
    assert len(found.events()) == count and layer.weight.grad is not None


def test_optimizer_steps():
    layer = nn.Linear(3, 2)
    optimizer = fl.optim.SGD(layer.parameters(), lr=0.1)
    with profile() as found:
        layer(fl.rand(4, 3)).sum().backward()
        optimizer.step()
    assert counted(found)["Optimizer.step#SGD.step"] == 1
    optimizer.step()
    assert counted(found)["Optimizer.step#SGD.step"] == 1


def test_shapes_memory_and_lines():
    x = fl.rand(256, 256)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as found:
        with record_function("block"):
            y = x + 1
        z = x[:2] @ x
        del y
    block, add, product = (
        next(event for event in found.events() if event.name == name)
        for name in ("block", "aten::add", "aten::matmul")
    )
    assert (
        add.input_shapes == [[256, 256], []]
        and add.cpu_memory_usage == 256 * 256 * 4 == block.cpu_memory_usage
    )
    assert block.self_cpu_memory_usage == 0 and product.flops == 2 * 2 * 256 * 256 and z.shape == (2, 256)
    assert "test_profiler.py" in add.stack[0] and add.stack[0].endswith("test_shapes_memory_and_lines")
    table = found.key_averages(group_by_stack_n=1).table(sort_by="self_cpu_memory_usage", row_limit=1)
    assert "256.00 KB" in table and "Source Location" in table and "test_profiler.py(" in table
    grouped = found.key_averages(group_by_input_shape=True)
    assert "[[2, 256], [256, 256]]" in grouped.table()


def test_table():
    x = fl.rand(8, 8)
    with profile() as found:
        for _ in range(5):
            x.exp()
        x.sum()
    table = found.key_averages().table(sort_by="count", row_limit=1, header="what it took")
    lines = table.splitlines()
    assert lines[1] == "what it took" and "# of Calls" in lines[3] and lines[5].split()[0] == "aten::exp"
    assert lines[5].split()[-1] == "5" and "aten::sum" not in table and "Self CPU time total: " in lines[-1]
    assert "aten::sum" in str(found.key_averages())
    assert (
        found.key_averages().table(sort_by="cuda_time_total")
        and found.key_averages()[0].self_cuda_time_total == 0
    )
    with pytest.raises(AttributeError, match="sort_by is one of"):
        found.key_averages().table(sort_by="bogus")


def test_traces_and_stacks(tmp_path):
    with profile(record_shapes=True, with_stack=True) as found:
        with record_function("block"):
            fl.rand(3).exp()
    found.add_metadata("note", "mine")
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    block, *_, exp = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert (block["cat"], block["name"], exp["name"], exp["cat"]) == (
        "user_annotation",
        "block",
        "aten::exp",
        "cpu_op",
    )
    assert block["ts"] <= exp["ts"] and exp["ts"] + exp["dur"] <= block["ts"] + block["dur"] + 0.002
    assert exp["args"]["Input Dims"] == [[3]] and trace["note"] == "mine"
    found.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert json.loads(gzip.open(tmp_path / "trace.json.gz").read())["traceEvents"]
    found.export_stacks(tmp_path / "stacks")
    assert "test_traces_and_stacks" in (tmp_path / "stacks").read_text()


def test_schedule():
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    assert [plan(step).value for step in range(11)] == [0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 0]
    assert schedule(wait=0, warmup=1, active=1)(101) is ProfilerAction.RECORD_AND_SAVE
    with pytest.raises(AssertionError):
        schedule(wait=-1, warmup=0, active=1)


def test_steps_of_a_schedule(tmp_path):
    x, ready, actions = fl.rand(3), [], []
    handler = tensorboard_trace_handler(tmp_path, "worker")

    def on_trace_ready(found):
        handler(found)
        ready.append((found.step_num, counted(found)))

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=on_trace_ready,
    ) as found:
        for _ in range(7):
            actions.append(found.current_action.name)
            x.exp()
            found.step()
    assert actions == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE", "NONE"]
    assert ready == [(4, {"ProfilerStep*": 2, "aten::exp": 2})]
    assert [path.name.split(".")[0] for path in tmp_path.glob("*.pt.trace.json")] == ["worker"]
    with pytest.raises(AssertionError, match="nothing has been recorded"):
        profile(schedule=lambda step: ProfilerAction.NONE).events()


def test_a_device_that_is_not_here_only_warns():
    with pytest.warns(UserWarning, match="CUDA: no such device"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])


def test_decorator_and_no_profile():
    @record_function("named")
    def double(x):
        return x * 2

    assert double(2) == 4
    with profile() as found:
        double(fl.ones(2))
    assert counted(found) == {"named": 1, "aten::mul": 1}


def test_the_older_profile():
    x = fl.rand(3)
    with autograd_profiler.profile(use_cuda=False, record_shapes=True) as found:
        assert str(found) == "<unfinished profile>"
        with autograd_profiler.record_function("block"):
            x * x
    assert counted(found) == {"block": 1, "aten::mul": 1} and [event.name for event in found] == [
        "block",
        "aten::mul",
    ]
    assert "aten::mul" in str(found) and found.self_cpu_time_total > 0
    with pytest.raises(RuntimeError, match="not reentrant"):
        found.__enter__()
    with autograd_profiler.profile(enabled=False) as off:
        x * x
    with pytest.raises(AssertionError):
        off.key_averages()
    with autograd_profiler.emit_nvtx():
        pass
    with pytest.warns(UserWarning, match="no such device"):
        autograd_profiler.profile(use_cuda=True)


def test_errors_end_a_profile():
    with pytest.raises(RuntimeError), profile() as found:
        with record_function("block"):
            fl.rand(2) @ fl.rand(3)
    assert _core.get_mode() == 0 and [event.name for event in found.events()][0] == "block"
    assert all(event.cpu_time_total >= 0 for event in found.events())


QUERY = fl.rand(2, 4, 16, 8)
COUNTS = {
    "product": (lambda: fl.rand(4, 5) @ fl.rand(5, 6), 2 * 4 * 5 * 6),
    "batch of products": (lambda: fl.bmm(fl.rand(3, 4, 5), fl.rand(3, 5, 6)), 3 * 2 * 4 * 5 * 6),
    "vector": (lambda: fl.rand(5) @ fl.rand(5, 6), 2 * 5 * 6),
    "einsum": (lambda: fl.einsum("ij,jk->ik", fl.rand(4, 5), fl.rand(5, 6)), 2 * 4 * 5 * 6),
    "attention": (lambda: F.scaled_dot_product_attention(QUERY, QUERY, QUERY), 2 * 2 * (2 * 4 * 16 * 16 * 8)),
    "convolution": (lambda: F.conv2d(fl.rand(1, 4, 5, 5), fl.rand(8, 2, 3, 3), groups=2), 2 * 8 * 9 * 2 * 9),
    "one axis": (lambda: F.conv1d(fl.rand(1, 4, 9), fl.rand(8, 4, 3)), 2 * 8 * 7 * 4 * 3),
    "transposed": (lambda: F.conv_transpose2d(fl.rand(1, 3, 5, 5), fl.rand(3, 4, 3, 3)), 2 * 3 * 25 * 4 * 9),
    "recurrent": (lambda: nn.LSTM(3, 4)(fl.rand(5, 2, 3)), 2 * 5 * 2 * (16 * 3 + 16 * 4)),
    "elementwise": (lambda: fl.rand(4).exp() + 1, 0),
}


@pytest.mark.parametrize("case", COUNTS)
def test_flops(case):
    call, count = COUNTS[case]
    with FlopCounterMode(display=False) as counter:
        call()
    assert counter.get_total_flops() == count


def test_flops_of_modules_and_backward_passes(capsys):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    with FlopCounterMode() as counter:
        net(fl.rand(2, 3, 8, 8)).sum().backward()
    found = counter.get_flop_counts()
    assert counter.get_total_flops() == 96768 and sum(found["Sequential"].values()) == 96768
    assert found["Sequential.0"] == {"aten.convolution": 31104, "aten.convolution_backward": 31104}
    assert found["Sequential.3"] == {"aten.linear": 11520, "aten.linear_backward": 23040}
    assert "96.768K" in capsys.readouterr().out
