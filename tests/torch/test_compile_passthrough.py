"""torch.compile, torch.compiler and torch._dynamo: what is compiled runs as it is and has the form that
PyTorch gives it.
"""

import copy
import functools
import pickle

import pytest

from flambeau import torch
from flambeau.torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.scale = nn.Linear(2, 3), 5

    def forward(self, x, twice=False):
        out = self.fc(x)
        return out * 2 if twice else out

    def helper(self):
        return self.scale + 1


def test_a_module_stays_within_reach():
    model = Model()
    compiled = torch.compile(model)
    x = torch.ones(1, 2)
    assert type(compiled) is torch._dynamo.OptimizedModule is torch._dynamo.eval_frame.OptimizedModule
    assert isinstance(compiled, nn.Module) and not isinstance(compiled, Model) and compiled._orig_mod is model
    assert torch.equal(compiled(x, twice=True), model(x) * 2)
    assert list(compiled.state_dict()) == ["_orig_mod.fc.weight",
        "_orig_mod.fc.bias"] and list(model.state_dict()) == [
        "fc.weight", "fc.bias"]
    assert [name for name, _ in compiled.named_parameters()] == list(compiled.state_dict())
    assert compiled.fc is model.fc and compiled.helper() == 6
    compiled.scale = 7
    compiled.extra = "new"
    assert model.scale == 7 and model.extra == "new" and compiled.helper() == 8 and "helper" in dir(compiled)
    del compiled.extra
    assert not hasattr(model, "extra") and not hasattr(compiled, "extra")
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'nothing'"):
        compiled.nothing


def test_training_and_evaluation_of_both():
    model = Model()
    compiled = torch.compile(model)
    assert compiled.training and compiled.eval() is compiled and not model.training and not model.fc.training
    model.train()
    assert compiled.training and compiled.train(False).training is False and not model.training
    assert compiled.to(torch.float64) is compiled and model.fc.weight.dtype is torch.float64


def test_weights_travel_with_and_without_the_prefix():
    model, other = Model(), Model()
    compiled = torch.compile(other)
    compiled.load_state_dict(torch.compile(model).state_dict())
    assert torch.equal(other.fc.weight, model.fc.weight)
    plain = {name.removeprefix("_orig_mod."): value for name, value in compiled.state_dict().items()}
    Model().load_state_dict(plain)
    with pytest.raises(RuntimeError, match="OptimizedModule"):
        compiled.load_state_dict(model.state_dict())


def test_hooks_copies_and_optimizers():
    model = Model()
    compiled, seen = torch.compile(model), []
    model.register_forward_hook(lambda *given: seen.append("inner"))
    compiled.register_forward_hook(lambda *given: seen.append("outer"))
    compiled(torch.ones(1, 2)).sum().backward()
    assert seen == ["inner", "outer"] and compiled.fc.weight.grad is model.fc.weight.grad is not None
    before = model.fc.bias.tolist()
    torch.optim.SGD(compiled.parameters(), lr=1.0).step()
    assert model.fc.bias.tolist() == pytest.approx([value - 1 for value in before], abs=1e-6)
    plain = torch.compile(Model())
    for twin in (copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
        assert type(twin) is type(plain) and twin._orig_mod is not plain._orig_mod
        assert torch.equal(twin.fc.weight, plain.fc.weight)


def test_functions_in_every_form():
    def double(x):
        """Twice."""
        return x * 2

    forms = [torch.compile(double), torch.compile(double, mode="max-autotune", fullgraph=True, dynamic=False),
             torch.compile()(double), torch.compile(backend="eager", options={"anything": 1})(double),
             functools.partial(torch.compile, backend=lambda graph, inputs: graph)(double),
             torch._dynamo.optimize("inductor")(double)]
    for form in forms:
        assert form(torch.ones(2)).tolist() == [2,
            2] and form.__name__ == "double" and form.__doc__ == "Twice."
        assert form is not double and form._torchdynamo_orig_callable is double
    assert torch.compile(double, disable=True) is double and torch.compile(Model) is Model

    class Inner(nn.Module):
        @torch.compile(mode="reduce-overhead")
        def forward(self, x):
            return x + 1

    assert Inner()(torch.ones(1)).item() == 2
    model = Model()
    assert model.compile(mode="default") is None and list(model.state_dict()) == ["fc.weight", "fc.bias"]


def test_arguments_are_checked():
    for options, kind in (({"mode": "fast"}, RuntimeError), ({"backend": "fast"}, RuntimeError),
                          ({"mode": "default", "options": {}}, RuntimeError)):
        with pytest.raises(kind):
            torch.compile(len, **options)
    with pytest.raises(AssertionError, match="A callable function is expected"):
        torch.compile(3)


def test_the_compiler_namespace():
    compiler = torch.compiler
    assert not (compiler.is_compiling() or compiler.is_dynamo_compiling() or compiler.is_exporting())
    assert compiler.disable(len) is len and compiler.disable()(len) is len
    assert compiler.disable(recursive=False)(len) is len
    assert compiler.allow_in_graph(len) is compiler.assume_constant_result(len) is len
    compiler.reset(), compiler.cudagraph_mark_step_begin()
    with compiler.set_stance("force_eager"):
        assert torch.compile(len)([1]) == 1
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        compiler.set_stance("lying")
    assert "inductor" in compiler.list_backends() and compiler.get_default_backend() == "inductor"
    assert compiler.compile is torch.compile


def test_settings_are_modules_that_can_be_imported():
    import importlib

    for name in ("_dynamo", "_inductor", "_functorch"):
        settings = importlib.import_module(f"flambeau.torch.{name}.config")
        assert settings is getattr(torch, name).config
        settings.a_new_one = 3
        kept = settings.save_config()
        settings.a_new_one = 4
        settings.load_config(kept)
        assert settings.a_new_one == 3 and settings.get_config_copy()["a_new_one"] == 3
        del settings.a_new_one
        with pytest.raises(AttributeError, match=f"torch.{name}.config.a_new_one does not exist"):
            settings.a_new_one


def test_settings_can_be_made():
    dynamo, inductor = torch._dynamo.config, torch._inductor.config
    assert dynamo.cache_size_limit == 8 and inductor.triton.cudagraphs is False
    with dynamo.patch(cache_size_limit=64, something=1):
        assert dynamo.cache_size_limit == 64 and dynamo.something == 1
    assert dynamo.cache_size_limit == 8 and not hasattr(dynamo, "something")
    inductor.coordinate_descent_tuning = inductor.triton.unique_kernel_names = True
    assert inductor.coordinate_descent_tuning
    inductor.coordinate_descent_tuning = False

    @dynamo.patch("verbose", True)
    def reading():
        return dynamo.verbose

    assert reading() and not dynamo.verbose
    torch._dynamo.reset(), torch._dynamo.mark_dynamic(torch.ones(2), 0), torch._dynamo.graph_break()
    torch._logging.set_logs(dynamo=10)
    for refused in (torch._dynamo.explain, torch._dynamo.export, torch.export.export, torch.onnx.export):
        with pytest.raises(NotImplementedError, match="programs are not captured yet"):
            refused(Model(), torch.ones(1, 2))
    assert not torch.onnx.is_in_onnx_export()
