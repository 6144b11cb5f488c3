"""The facade: PyTorch's paths lead to the house's objects, what is missing says so."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import flambeau as fl
from flambeau import torch
from flambeau.torch import _mirror
from flambeau.types.dtype import set_repr_prefix

FOLDER = Path(torch.__file__).parent


@pytest.fixture(autouse=True, scope="module")
def own_names_again():
    """Importing the facade chose PyTorch's names in repr for the process."""
    yield
    set_repr_prefix("flambeau")


SAME = {
    "nn.Linear": "nn.Linear", "nn.modules.linear.Linear": "nn.Linear",
    "nn.functional.relu": "nn.functional.relu",
    "optim.Adam": "optim.Adam", "optim.adam.Adam": "optim.Adam",
    "optim.optimizer.Optimizer": "optim.Optimizer",
    "optim.lr_scheduler.StepLR": "optim.lr_scheduler.StepLR", "utils.data.DataLoader": "data.DataLoader",
    "utils.data.dataset.TensorDataset": "data.TensorDataset",
    "utils.data.sampler.Sampler": "data.sampler.Sampler",
    "Tensor": "Tensor", "autograd.grad": "autograd.grad", "serialization.load": "load",
    "random.manual_seed": "manual_seed",
    "functional.cat": "cat", "autograd.grad_mode.no_grad": "no_grad",
}


def at(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


@pytest.mark.parametrize("path", SAME)
def test_one_object_under_both_names(path):
    assert at(torch, path) is at(fl, SAME[path])


def test_private_base_of_schedules_is_reached():
    assert issubclass(torch.optim.lr_scheduler._LRScheduler, torch.optim.lr_scheduler.LRScheduler)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_module_imports_or_says_what_is_missing(path):
    parts = [part for part in path.relative_to(FOLDER).with_suffix("").parts if part != "__init__"]
    try:
        module = importlib.import_module(".".join(["flambeau.torch", *parts]))
    except ModuleNotFoundError as error:
        assert re.fullmatch(r"No module named 'torch\.[\w.]+' in Flambeau's facade of torch \(yet\)",
                            str(error))
    else:
        assert all(isinstance(name, str) for name in dir(module))


def test_what_is_missing_is_two_errors_and_names_the_nearest():
    with pytest.raises(_mirror.UnsupportedError,
                       match=r"torch\.optim\.Adem is not supported.*\n.*torch\.optim\.Adam"):
        torch.optim.Adem
    assert issubclass(_mirror.UnsupportedError, AttributeError) and issubclass(_mirror.UnsupportedError,
                                                                               NotImplementedError)
    assert not hasattr(torch.nn, "NoSuchLayer") and not hasattr(torch, "memory")


def test_dtypes_and_constants():
    assert torch.float is torch.float32 and torch.long is torch.int64 and torch.int is torch.int32
    assert torch.cfloat is torch.complex64 and torch.half is torch.float16 and torch.bool is fl.bool
    assert repr(torch.strided) == "torch.strided" and repr(torch.float32) == "torch.float32"
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>" and torch.newaxis is None
    assert torch.ones(2).type() == torch.typename(torch.ones(2)) == "torch.FloatTensor"


def test_no_device_but_the_cpu():
    assert not (torch.cuda.is_available() or torch.backends.mps.is_available()
                or torch.accelerator.is_available())
    assert torch.cuda.device_count() == torch.cuda.memory_allocated() == 0 and torch.cpu.is_available()
    torch.cuda.manual_seed_all(1)
    with torch.backends.cudnn.flags(benchmark=True):
        assert torch.backends.cudnn.benchmark is fl.backends.autotune is True
    assert torch.backends.cudnn.benchmark is False
    with pytest.raises(RuntimeError, match=r"\[cuda.current_device\] there is no CUDA device here"):
        torch.cuda.current_device()
    assert torch.version.cuda is None and not torch.distributed.is_available()


def test_mixed_precision_for_cuda_is_switched_off_with_a_warning():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler("cuda")
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"):
        with torch.autocast("cuda", dtype=torch.float16):
            pass
    parameter = torch.nn.Parameter(torch.ones(1))
    loss = scaler.scale((parameter * 3).sum())
    loss.backward()
    scaler.step(torch.optim.SGD([parameter], lr=1.0))
    scaler.update()
    assert parameter.item() == -2 and not scaler.is_enabled()
    with torch.autocast("cpu", enabled=False):
        pass


def test_data_parallel_on_one_device_is_the_module():
    model = torch.nn.DataParallel(torch.nn.Linear(2, 3))
    x = torch.ones(4, 2)
    assert torch.equal(model(x), model.module(x)) and list(model.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(RuntimeError, match="several processes is not available"):
        torch.distributed.init_process_group("gloo")


def test_variable_is_the_tensor():
    data = torch.ones(2)
    variable = torch.autograd.Variable(data, requires_grad=True)
    assert variable.requires_grad and variable.is_leaf and variable.data_ptr() == data.data_ptr()
    assert torch.autograd.Variable(data) is data


def test_fork_rng_puts_the_state_back():
    torch.manual_seed(3)
    with torch.random.fork_rng():
        inside = torch.rand(4).tolist()
    assert torch.rand(4).tolist() == inside


def test_pairs():
    utils = importlib.import_module("flambeau.torch.nn.modules.utils")
    assert utils._pair(3) == (3, 3) and utils._triple([1, 2, 3]) == (1, 2, 3)


# ------------------------------------------------------------------------------------ torch.testing
CLOSE = [
    ([1.0, 2.0], [1.0, 2.0 + 1e-8], {}), ([1.0], [1.5], {"rtol": 0, "atol": 0.5}), (1, 1, {}),
    (1.0, 1.0 + 1e-8, {}),
    (np.ones(3), np.ones(3), {}), ({"a": [1, 2]}, {"a": [1, 2]}, {}),
    ([float("nan")], [float("nan")], {"equal_nan": True}),
    ([float("inf")], [float("inf")], {}),
]


@pytest.mark.parametrize("actual, expected, options", CLOSE)
def test_close(actual, expected, options):
    torch.testing.assert_close(actual, expected, **options)


FAR = [
    (lambda: (torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[0.0, 2], [3, 5]])),
     "Tensor-likes are not close!\n\nMismatched elements: 2 / 4 (50.0%)\nGreatest absolute difference: 1.0 at index (0, 0) "
     "(up to 1e-05 allowed)\nGreatest relative difference: inf at index (0, 0) (up to 1.3e-06 allowed)"),
    (lambda: (torch.tensor([1, 2, 3]), torch.tensor([1, 5, 3])),
     "Tensor-likes are not equal!\n\nMismatched elements: 1 / 3 (33.3%)\nGreatest absolute difference: 3 at index (1,)\n"
     "Greatest relative difference: 0.6 at index (1,)"),
    (lambda: (1.0, 2.0), "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-07 allowed)"
                         "\nRelative difference: 0.5 (up to 1e-07 allowed)"),
    (lambda: (torch.ones(2), torch.ones(3)),
     "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([3])."),
    (lambda: (torch.ones(2), torch.ones(2, dtype=torch.float64)),
     "The values for attribute 'dtype' do not match: torch.float32 != torch.float64."),
    (lambda: ([1, {"a": 2}], [1, {"a": 3}]),
     "Scalars are not equal!\n\nExpected 3 but got 2.\nAbsolute difference: 1\nRelative difference: 0.3333333333333333\n\n"
     "The failure occurred for item [1]['a']"),
    (lambda: ([1, 2], [1]), "The length of the sequences mismatch: 2 != 1"),
]


@pytest.mark.parametrize("make, message", FAR)
def test_far(make, message):
    set_repr_prefix("torch")
    with pytest.raises(AssertionError) as caught:
        torch.testing.assert_close(*make())
    assert str(caught.value) == message


def test_arguments_of_assert_close():
    with pytest.raises(ValueError, match="either specified or omitted, but got no atol"):
        torch.testing.assert_close(1, 1, rtol=1.0)
    with pytest.raises(AssertionError, match="^mine$"):
        torch.testing.assert_close(1, 2, msg="mine")
    with pytest.raises(TypeError, match="No comparison pair was able to handle"):
        torch.testing.assert_close("a", "a")


def test_make_tensor():
    drawn = torch.testing.make_tensor(50, 4, dtype=torch.float32, low=-1, high=1, noncontiguous=True)
    assert drawn.shape == (50, 4) and not drawn.is_contiguous() and -1 <= drawn.min() and drawn.max() < 1
    whole = torch.testing.make_tensor((100,), dtype=torch.int8, low=-2, high=2, exclude_zero=True)
    assert set(whole.tolist()) == {-2, -1, 1}
