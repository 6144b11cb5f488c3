"""DataParallel and its steps on one device."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import parallel


def test_data_parallel_is_the_module():
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout())
    wrapped = nn.DataParallel(module, device_ids=[0, 1]).eval()
    x = fl.rand(5, 3)
    assert wrapped.module is module and not module.training and fl.equal(wrapped(x), module(x))
    assert list(wrapped.state_dict()) == ["module.0.weight", "module.0.bias"]
    assert [name for name, _ in wrapped.named_parameters()] == ["module.0.weight", "module.0.bias"]
    wrapped.load_state_dict({key: fl.zeros_like(value) for key, value in wrapped.state_dict().items()})
    assert parallel.data_parallel(module, x).abs().max() == 0
    wrapped(x).sum().backward()
    assert module[0].weight.grad is not None


def test_the_steps_give_what_the_whole_gives():
    module, x = nn.Linear(3, 2), fl.rand(7, 3)
    replicas = parallel.replicate(module, ["cpu"] * 3)
    assert all(replica is not module and replica.weight is module.weight for replica in replicas)
    parts = parallel.scatter((x,), ["cpu"] * 3)
    assert [part.shape[0] for part, in parts] == [3, 3, 1]
    whole = parallel.gather(parallel.parallel_apply(replicas, parts), "cpu")
    assert fl.allclose(whole, module(x))
    whole.sum().backward()
    assert fl.allclose(module.weight.grad, x.sum(0).expand(2, 3))
    assert not parallel.replicate(module, ["cpu"], detach=True)[0].weight.requires_grad


def test_structures():
    inputs = {"x": fl.arange(4), "pair": [fl.arange(4), "text"], "empty": ()}
    parts = parallel.scatter(inputs, [0, 1])
    assert parts[1]["x"].tolist() == [2, 3] and parts[0]["pair"][1] == "text" and parts[0]["empty"] == ()
    assert parallel.gather(parts and [{"x": p["x"]} for p in parts], "cpu")["x"].tolist() == [0, 1, 2, 3]
    assert parallel.gather([(fl.tensor(1.0), None), (fl.tensor(2.0), None)], "cpu")[0].tolist() == [1, 2]
    args, kwargs = parallel.scatter_kwargs((fl.arange(4),), {}, [0, 1])
    assert len(args) == len(kwargs) == 2 and kwargs == ({}, {})


def test_refusals():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        parallel.DistributedDataParallel(nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="one input for each module"):
        parallel.parallel_apply([nn.Linear(2, 2)], [])
