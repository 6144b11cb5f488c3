"""torch.save, torch.load and torch.serialization, as programs use them."""

import io
import os
import pickle
import zipfile

import pytest

import flambeau as fl
from flambeau import torch
from flambeau.torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x)


def test_save_writes_pytorchs_format_where_fl_save_has_its_own(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "a.pt")
    fl.save({"a": torch.ones(2)}, tmp_path / "a.fl")
    assert zipfile.is_zipfile(tmp_path / "a.pt") and not zipfile.is_zipfile(tmp_path / "a.fl")
    assert torch.load(tmp_path / "a.pt")["a"].tolist() == torch.load(tmp_path / "a.fl")["a"].tolist() == [1, 1]
    assert torch.load is fl.load is torch.serialization.load and torch.serialization.save is torch.save


def test_whole_models_need_a_word_of_trust(tmp_path, monkeypatch):
    path = str(tmp_path / "model.pt")
    with open(path, "wb") as file:
        torch.save(Model(), file)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path)
    with torch.serialization.safe_globals([Model, torch.nn.modules.linear.Linear]), open(path, "rb") as file:
        assert type(torch.load(file)) is Model
    assert type(torch.load(path, weights_only=False)) is Model
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert type(torch.load(path)) is Model


def test_checkpoints_resume(tmp_path):
    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(3, 2)).square().sum().backward()
        optimizer.step()
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    step(model, optimizer)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "args": {"lr": 0.1}, "iter": 1},
               os.path.join(tmp_path, "ckpt.pt"))
    checkpoint = torch.load(os.path.join(tmp_path, "ckpt.pt"), map_location="cpu")
    again = Model()
    again.load_state_dict(checkpoint["model"])
    second = torch.optim.Adam(again.parameters())
    second.load_state_dict(checkpoint["optimizer"])
    step(model, optimizer)
    step(again, second)
    assert torch.equal(model.layer.weight, again.layer.weight) and checkpoint["iter"] == 1


def test_prefixes_of_compiled_models_can_be_taken_off():
    stream = io.BytesIO()
    torch.save({f"_orig_mod.{key}": value for key, value in Model().state_dict().items()}, stream)
    stream.seek(0)
    state = torch.load(stream)
    for key in list(state):
        state[key.removeprefix("_orig_mod.")] = state.pop(key)
    assert str(Model().load_state_dict(state)) == "<All keys matched successfully>"


def test_the_random_state_travels():
    generator, stream = torch.Generator().manual_seed(3), io.BytesIO()
    torch.rand(3, generator=generator)
    torch.save({"generator": generator, "state": torch.get_rng_state()}, stream)
    stream.seek(0)
    loaded = torch.load(stream)
    assert torch.equal(torch.rand(4, generator=loaded["generator"]), torch.rand(4, generator=generator))
    assert torch.equal(loaded["state"], torch.get_rng_state())


def test_meta_models_take_over_mapped_weights(tmp_path):
    torch.save(Model().state_dict(), tmp_path / "weights.pt")
    with torch.device("meta"):
        model = Model()
    state = torch.load(tmp_path / "weights.pt", mmap=True, weights_only=True)
    model.load_state_dict(state, assign=True)
    assert model.layer.weight.device.type == "cpu" and torch.equal(model.layer.weight, state["layer.weight"])


def test_plain_pickles_find_what_they_call():
    """Pickles of PyTorch's, not by torch.save, name functions of torch._utils and torch.storage."""
    stream = io.BytesIO()
    torch.save(torch.arange(3.).untyped_storage(), stream, _use_new_zipfile_serialization=False)
    storage = torch.storage._load_from_bytes(stream.getvalue())
    assert torch.serialization._get_layout("torch.strided") is torch.strided
    made = torch._utils._rebuild_tensor_v3(storage, 1, (2,), (1,), True, {}, torch.float32)
    assert made.tolist() == [1, 2] and made.requires_grad
    with pytest.raises(pickle.UnpicklingError):
        torch._utils._rebuild_tensor_v3(storage, 1, (9,), (1,), True, {}, torch.float32)
