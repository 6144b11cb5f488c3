"""torch.jit: scripts and traces run their Python, in objects of PyTorch's form."""

import copy
import typing

import pytest

from flambeau import torch
from flambeau.torch import nn
from flambeau.torch.jit._objects import ScriptMethod


class Gate(nn.Module):
    __constants__ = ["limit"]

    def __init__(self, limit: torch.jit.Final[int] = 3):
        super().__init__()
        self.fc, self.limit = nn.Linear(2, 2), limit

    def forward(self, x):
        out = self.fc(x)
        return out if x.sum() > self.limit else -out

    @torch.jit.export
    def helper(self, x):
        return x + self.limit

    @torch.jit.ignore
    def note(self):
        return "noted"

    @torch.jit.unused
    def never(self):
        raise AssertionError


def test_scripts_of_modules():
    model = Gate()
    scripted = torch.jit.script(model)
    assert isinstance(scripted, torch.jit.ScriptModule) and isinstance(scripted, nn.Module)
    assert not isinstance(scripted, Gate)
    assert torch.jit.script(scripted) is scripted and scripted.original_name == "Gate"
    for x in (torch.ones(1, 2), torch.ones(1, 2) * 5):
        assert torch.equal(scripted(x), model(x))
    assert list(scripted.state_dict()) == ["fc.weight", "fc.bias"] and scripted.fc.weight is model.fc.weight
    assert scripted.helper(torch.ones(1)).item() == 4 and scripted.note() == "noted" and scripted.limit == 3
    scripted.limit = 10
    assert model.limit == 10
    assert not scripted.eval().training and not model.training and not model.fc.training
    assert scripted.train().training
    scripted.double()
    assert model.fc.weight.dtype is torch.float64 and "original_name=Gate" in repr(scripted)
    assert "return out if x.sum()" in scripted.code
    twin = copy.deepcopy(scripted)
    assert twin.fc.weight is not scripted.fc.weight and torch.equal(twin.fc.weight, model.fc.weight)


def test_training_a_script():
    model = Gate()
    scripted = torch.jit.script(model)
    optimizer = torch.optim.SGD(scripted.parameters(), lr=0.1)
    before = model.fc.bias.tolist()
    scripted(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    assert model.fc.bias.tolist() != before


def test_traces_keep_their_control_flow():
    model, seen = Gate(), []
    hook = model.fc.register_forward_hook(lambda *given: seen.append(torch.jit.is_tracing()))
    traced = torch.jit.trace(model, torch.ones(1, 2), check_trace=False)
    hook.remove()
    assert seen == [True] and not torch.jit.is_tracing()
    assert isinstance(traced, torch.jit.TopLevelTracedModule)
    assert torch.equal(traced(torch.ones(1, 2) * 5), model(torch.ones(1, 2) * 5))
    both = torch.jit.trace(lambda a, b: {"sum": a + b}, (torch.ones(1), torch.ones(1)))
    assert both(torch.ones(2), torch.ones(2))["sum"].tolist() == [2, 2]
    by_name = torch.jit.trace(model, example_kwarg_inputs={"x": torch.ones(1, 2)})
    module = torch.jit.trace_module(Gate(), {"forward": torch.ones(1, 2), "helper": (torch.ones(1),)})
    assert by_name(torch.ones(1, 2)).shape == (1, 2) and module.helper(torch.ones(1)).item() == 4
    with pytest.raises(RuntimeError, match="Only tensors, lists, tuples of tensors"):
        torch.jit.trace(lambda x: 3, torch.ones(1))
    with pytest.raises(RuntimeError):
        torch.jit.trace(model, torch.ones(1, 5))


def test_functions_classes_and_methods():
    @torch.jit.script
    def add(x, y: int = 2):
        """Adds."""
        return x + y

    @torch.jit.script
    class Pair:
        def __init__(self, a: int):
            self.a = a

    class Scripted(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        @torch.jit.script_method
        def forward(self, x):
            return x * self.weight

    assert add(torch.ones(1)).item() == 3 and add(torch.ones(1), y=5).item() == 6
    assert isinstance(add, torch.jit.ScriptFunction)
    assert add.name == "add" and add.__doc__ == "Adds." and "return x + y" in add.code
    assert Pair(3).a == 3 and Scripted()(torch.ones(2)).tolist() == [1, 1]
    assert list(Scripted().state_dict()) == ["weight"]
    assert torch.jit.script_if_tracing(len) is len and torch.jit.ignore(drop=True)(len) is len
    with pytest.raises(TypeError):
        torch.jit.script(3)
    with pytest.raises(RuntimeError, match="pass an instance instead"):
        torch.jit.script(Gate)


def test_small_names():
    jit = torch.jit
    assert jit.annotate(typing.List[int], []) == [] and jit.Attribute(3, int).value == 3
    assert not jit.is_scripting()
    assert jit.isinstance([1], typing.List[int]) and not jit.isinstance([1.0], typing.List[int])
    assert jit.isinstance({"a": (1, "b")}, typing.Dict[str, typing.Tuple[int, str]])
    assert jit.isinstance(None, typing.Optional[int])
    assert jit.wait(jit.fork(lambda x: x + 1, 2)) == 3
    with pytest.raises(ZeroDivisionError):
        jit.fork(lambda: 1 / 0).wait()
    assert torch.futures.wait_all([jit.fork(abs, -1), jit.fork(abs, -2)]) == [1, 2]
    with jit.optimized_execution(False), jit.strict_fusion():
        pass


def test_freezing_wants_evaluation():
    scripted = torch.jit.script(Gate())
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(scripted)
    assert torch.jit.freeze(scripted.eval()) is scripted
    assert torch.jit.optimize_for_inference(scripted) is scripted
    with pytest.raises(RuntimeError, match="ScriptModule"):
        torch.jit.freeze(Gate().eval())


def test_a_graph_is_text_to_print():
    scripted, function = torch.jit.script(Gate()), torch.jit.script(lambda x: x + 1)
    assert "def forward" in str(scripted.graph) and "x + 1" in f"{function.inlined_graph}"
    method = scripted.__getattr__("forward")
    assert isinstance(method, ScriptMethod) and str(method.graph) == repr(scripted.graph)
    assert not hasattr(scripted, "backward")


def test_files_are_refused_with_another_way(tmp_path):
    scripted = torch.jit.script(Gate())
    for refused in (lambda: scripted.save(tmp_path / "a.pt"), lambda: torch.jit.save(scripted, tmp_path / "a.pt"),
                    lambda: torch.jit.script(abs).save("a.pt"), lambda: scripted.graph.nodes()):
        with pytest.raises(NotImplementedError, match="hint:"):
            refused()
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(tmp_path / "missing.pt")
    assert not list(tmp_path.iterdir())
