"""Module: registration, attribute rules, listing, hooks, conversion, printing."""

import copy
import pickle

import pytest

import flambeau as fl
from flambeau import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(fl.ones(3))
        self.register_buffer("count", fl.zeros(1))
        self.register_buffer("scratch", fl.zeros(1), persistent=False)
        self.nothing = None
        self.inner = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))

    def forward(self, x):
        return self.inner(self.first(x) * self.scale)


def test_names_in_order():
    block = Block()
    names = [name for name, _ in block.named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "inner.1.weight"]
    assert [name for name, _ in block.named_buffers()] == ["count", "scratch"]
    assert [name for name, _ in block.named_modules()] == ["", "first", "inner", "inner.0", "inner.1"]
    assert [name for name, _ in block.named_children()] == ["first", "inner"]
    assert list(block.state_dict()) == ["scale", "count", "first.weight", "first.bias", "inner.1.weight"]
    assert [name for name, _ in block.named_parameters(prefix="net", recurse=False)] == ["net.scale"]


def test_shared_members_are_listed_once():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    model.alias = layer.weight
    assert [name for name, _ in model.named_parameters()] == ["alias", "0.bias"]
    assert len(list(model.named_parameters(remove_duplicate=False))) == 5
    assert len(list(model.modules())) == 2
    assert list(model.state_dict()) == ["alias", "0.weight", "0.bias", "1.weight", "1.bias"]


def test_assignment_moves_between_tables():
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter(fl.ones(1))
    assert "x" in module._parameters and "x" not in module.__dict__
    module.x = None
    assert module.x is None and list(module.parameters()) == []
    del module.x
    module.x = nn.ReLU()
    assert list(module._modules) == ["x"]
    module.x = nn.Parameter(fl.ones(1))
    assert list(module._modules) == [] and list(module._parameters) == ["x"]
    module.register_buffer("b", None, persistent=False)
    module.b = fl.ones(2)
    assert module.b.tolist() == [1, 1] and "b" not in module.state_dict()


@pytest.mark.parametrize("act, kind, text", [
    (lambda m: setattr(m, "weight", 3), TypeError, "cannot assign 'int' as parameter 'weight'"),
    (lambda m: setattr(m, "weight", nn.ReLU()), TypeError, "as parameter 'weight'"),
    (lambda m: setattr(m, "sub", 3), TypeError, "cannot assign 'int' as child module 'sub'"),
    (lambda m: setattr(m, "buffer", 3), TypeError, "cannot assign 'int' as buffer 'buffer'"),
    (lambda m: m.foo, AttributeError, "'Linear' object has no attribute 'foo'"),
    (lambda m: delattr(m, "foo"), AttributeError, "foo"),
    (lambda m: m.register_parameter("a.b", None), KeyError, "parameter name can't contain"),
    (lambda m: m.register_parameter("", None), KeyError, "parameter name can't be empty string"),
    (lambda m: m.register_parameter("forward", None), KeyError, "attribute 'forward' already exists"),
    (lambda m: m.register_parameter("q", fl.ones(2)), TypeError, "object to parameter 'q'"),
    (lambda m: m.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
    (lambda m: m.register_buffer("q", 4), TypeError, "cannot assign 'int' object to buffer 'q'"),
    (lambda m: m.add_module("q", 4), TypeError, "int is not a Module subclass"),
    (lambda m: m.get_submodule("a.b"), AttributeError, "Linear has no attribute `a`"),
    (lambda m: m.get_submodule("weight"), AttributeError, "`weight` is not an nn.Module"),
    (lambda m: m.get_buffer("weight"), AttributeError, "`weight` is not a buffer"),
    (lambda m: m.get_parameter("buffer"), AttributeError, "`buffer` is not an nn.Parameter"),
    (lambda m: m.train(1), ValueError, "training mode is expected to be boolean"),
    (lambda m: m.to(fl.int32), TypeError, "only accepts floating point or complex"),
    (lambda m: nn.Module()(1), NotImplementedError, 'missing the required "forward" function'),
    (lambda m: nn.Module(1), TypeError, "takes 1 positional argument but 2 were given"),
])
def test_errors(act, kind, text):
    module = nn.Linear(2, 2)
    module.sub = nn.Module()
    module.register_buffer("buffer", fl.ones(1))
    with pytest.raises(kind) as caught:
        act(module)
    assert text in caught.value.args[0]


def test_members_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value
    for value, text in ((nn.Parameter(fl.ones(1)), "cannot assign parameters before Module.__init__() call"),
                        (nn.ReLU(), "cannot assign module before Module.__init__() call")):
        with pytest.raises(AttributeError) as caught:
            Early(value)
        assert text in str(caught.value)


def test_paths():
    block = Block()
    assert block.get_submodule("inner.1") is block.inner[1]
    assert block.get_submodule("") is block
    assert block.get_parameter("first.bias") is block.first.bias
    assert block.get_buffer("count") is block.count
    block.set_submodule("inner.1", nn.Identity())
    assert isinstance(block.inner[1], nn.Identity)


def test_modes_and_gradients():
    block = Block()
    assert block.eval() is block and not any(module.training for module in block.modules())
    block.train()
    block.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in block.parameters())
    block.scale.grad = fl.ones(3)
    block.zero_grad(set_to_none=False)
    assert block.scale.grad.tolist() == [0, 0, 0]
    block.zero_grad()
    assert block.scale.grad is None


def test_conversion_keeps_the_parameters():
    block = Block()
    block.register_buffer("steps", fl.tensor(3))
    before = list(block.parameters())
    block.scale.grad = fl.ones(3)
    assert block.to(fl.float64) is block
    assert all(one is other for one, other in zip(before, block.parameters()))
    assert {parameter.dtype for parameter in block.parameters()} == {fl.float64}
    assert block.scale.grad.dtype is fl.float64 and block.count.dtype is fl.float64
    assert block.steps.dtype is fl.int64
    assert block.half().scale.dtype is fl.float16 and block.float().scale.dtype is fl.float32
    block.to("cpu", fl.float64).to(fl.ones(1))
    assert block.scale.dtype is fl.float32


def test_apply_goes_to_the_children_first():
    seen = []
    Block().apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Block"]


def test_the_state_of_an_older_version_gets_the_tables_that_it_lacks():
    layer, older = nn.Linear(2, 2), nn.Linear.__new__(nn.Linear)
    older.__setstate__({name: value for name, value in layer.__dict__.items()
                        if not name.endswith("_hooks") and name != "_non_persistent_buffers_set"})
    assert bool((older(fl.ones(1, 2)) == layer(fl.ones(1, 2))).all()) and list(older.state_dict()) == ["weight", "bias"]
    older.register_forward_hook(lambda module, args, result: result * 0)
    assert older(fl.ones(1, 2)).abs().sum().item() == 0


def test_copy_and_pickle():
    block = Block()
    block.inner[1].weight = nn.Parameter(block.scale.detach().reshape(1, 3).clone())
    for other in (copy.deepcopy(block), pickle.loads(pickle.dumps(block.inner))):
        mine = dict((block if isinstance(other, Block) else block.inner).named_parameters())
        for name, parameter in other.named_parameters():
            assert isinstance(parameter, nn.Parameter) and parameter.requires_grad
            assert parameter is not mine[name] and parameter.tolist() == mine[name].tolist()


def test_deepcopy_keeps_tied_weights():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    other = copy.deepcopy(model)
    assert other[1].weight is other[0].weight


# ---------------------------------------------------------------------------------- hooks

def test_forward_hooks():
    layer, log = nn.Identity(), []
    handles = [
        layer.register_forward_hook(lambda module, args, output: log.append("hook") or output + 1),
        layer.register_forward_hook(lambda module, args, output: log.append("first"), prepend=True),
        layer.register_forward_pre_hook(lambda module, args: (args[0] * 10,)),
        layer.register_forward_hook(lambda module, args, kwargs, output: log.append(kwargs),
                                    with_kwargs=True),
    ]
    assert layer(fl.tensor(2.0)).item() == 21
    assert log == ["first", "hook", {}]
    for handle in handles:
        handle.remove()
    assert layer(fl.tensor(2.0)).item() == 2 and len(log) == 3


def test_always_called_hook_and_with_statement():
    layer, log = nn.Linear(2, 2), []
    with layer.register_forward_hook(lambda *args: log.append(args[-1]), always_call=True):
        with pytest.raises(Exception):
            layer(fl.ones(1, 3))
    assert log == [None] and not layer._forward_hooks and not layer._forward_hooks_always_called


def test_pre_hook_with_a_wrong_result():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        layer(1)


class Passing(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook",
                                      "register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("function", [
    lambda x: x, lambda x: x * 3, lambda x: (x, x + 1), lambda x: [x * 2, x], lambda x: x[:1], lambda x: x.detach(),
    lambda x: (x * 2).add_(1)])
@pytest.mark.parametrize("leaf", [True, False])
def test_a_hook_that_does_nothing_changes_nothing(register, function, leaf):
    made = []
    layer = Passing(lambda x: made.append(function(x)) or made[-1])
    getattr(layer, register)(lambda *args: None)
    start = fl.tensor([1.0, 2.0], requires_grad=True)
    given = start if leaf else start * 2
    out, plain = layer(given), function(given)
    single = not isinstance(out, (tuple, list))
    for got, original, value in zip(*([[each] if single else each for each in (out, made[-1], plain)])):
        assert (got.detach() == value.detach()).all() and got.requires_grad == value.requires_grad
        watched_input = register == "register_full_backward_hook"
        assert got is original or watched_input and original.grad_fn is not None and got is given
    total = sum((each * each).sum() for each in ([out] if single else out))
    wanted = sum((each * each).sum() for each in ([plain] if single else plain))
    if wanted.requires_grad:
        assert (fl.autograd.grad(total, start, retain_graph=True)[0] == fl.autograd.grad(wanted, start)[0]).all()


# ---------------------------------------------------------------------------------- printing

def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(Block()) == """Block(
  (first): Linear(in_features=2, out_features=3, bias=True)
  (inner): Sequential(
    (0): ReLU()
    (1): Linear(in_features=3, out_features=1, bias=False)
  )
)"""


def test_dir_has_the_members():
    names = dir(Block())
    assert {"first", "scale", "count", "forward"} <= set(names)
    assert not any(name[0].isdigit() for name in dir(nn.Sequential(nn.ReLU())))
