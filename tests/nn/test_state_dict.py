"""state_dict and load_state_dict."""

import pytest

import flambeau as fl
from flambeau import nn


def model():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


KEYS = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
        "1.num_batches_tracked"]


def test_keys_and_sharing():
    net = model()
    state = net.state_dict()
    assert list(state) == KEYS
    assert not state["0.weight"].requires_grad
    with fl.no_grad():
        net[0].bias.fill_(7)
    assert state["0.bias"].tolist() == [7, 7, 7]
    assert net.state_dict(keep_vars=True)["0.bias"] is net[0].bias
    assert list(net.state_dict(prefix="net."))[0] == "net.0.weight"


def test_load_copies_values():
    first, second = model(), model()
    result = second.load_state_dict(first.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert second[0].weight.tolist() == first[0].weight.tolist()
    with fl.no_grad():
        first[0].weight.zero_()
    assert second[0].weight.tolist() != first[0].weight.tolist()


def test_every_problem_is_listed():
    net, state = model(), model().state_dict()
    del state["0.bias"]
    state["extra"] = fl.ones(1)
    state["0.deep.key"] = fl.ones(1)
    state["0.weight"] = fl.ones(3, 3)
    state["1.bias"] = "text"
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Sequential:\n\t"
                           'Missing key(s) in state_dict: "0.bias". ')
    assert '\n\tUnexpected key(s) in state_dict: "extra", "0.deep.key". ' in text
    assert "\n\tsize mismatch for 0.weight: copying a param with shape" in text
    assert 'While copying the parameter named "1.bias", expected' in text


def test_not_strict():
    state = model().state_dict()
    del state["0.bias"]
    state["extra"] = fl.ones(1)
    result = model().load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.bias"] and result.unexpected_keys == ["extra"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        model().load_state_dict([1])


def test_assign_takes_the_tensors_over():
    source, target = model().state_dict(), model()
    target[0].bias.requires_grad_(False)
    target.load_state_dict(source, assign=True)
    assert target[0].weight.data_ptr() == source["0.weight"].data_ptr()
    assert isinstance(target[0].weight, nn.Parameter) and target[0].weight.requires_grad
    assert not target[0].bias.requires_grad


def test_old_files_without_the_batch_counter():
    state, net = model().state_dict(), model()
    del state["1.num_batches_tracked"]
    state._metadata["1"] = {"version": 1}
    net[1].num_batches_tracked.add_(5)
    net.load_state_dict(state)
    assert net[1].num_batches_tracked.item() == 5


def test_extra_state():
    class Counted(nn.Module):
        calls = 0

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]
    first, second = nn.Sequential(Counted()), nn.Sequential(Counted())
    first[0].calls = 3
    assert list(first.state_dict()) == ["0._extra_state"]
    second.load_state_dict(first.state_dict())
    assert second[0].calls == 3
    with pytest.raises(RuntimeError, match='Missing key.*"0._extra_state"'):
        second.load_state_dict({})


def test_hooks():
    net, log = model(), []
    net.register_state_dict_pre_hook(lambda module, prefix, keep: log.append("pre"))

    def remove_bias(module, state, prefix, metadata):
        log.append("post")
        del state["0.bias"]
    net.register_state_dict_post_hook(remove_bias)
    state = net.state_dict()
    assert log == ["pre", "post"] and "0.bias" not in state
    net.register_load_state_dict_pre_hook(
        lambda module, state, *rest: state.update({"0.bias": fl.ones(3)}))
    net.register_load_state_dict_post_hook(lambda module, keys: log.append(keys.missing_keys))
    net.load_state_dict(state)
    assert net[0].bias.tolist() == [1, 1, 1] and log[-1] == []


def test_assign_keeps_tied_members_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
            self.second.weight = self.first.weight
            self.register_buffer("table", fl.zeros(2))
            self.second.register_buffer("table", self.table)

    net = Tied()
    state = {name: fl.full(tuple(value.shape), float(number)) for number, (name, value)
             in enumerate(net.state_dict().items())}
    net.load_state_dict(state, assign=True)
    assert net.first.weight is net.second.weight and net.table is net.second.table
    assert (net.first.weight == state["second.weight"]).all()          # the last value, as with copying
    assert net.first.bias is not net.second.bias
