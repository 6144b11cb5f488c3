"""save and load: everything comes back, and what is broken is said."""

import importlib
import io
import math
import os
from collections import Counter, OrderedDict

import pytest

import flambeau as fl
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.save import load, save

save_module = importlib.import_module("flambeau.tensor.save")     # the name in the package is the function

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def round_trip(obj):
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize("value", [
    None, True, 0, -1, 2 ** 53 + 1, -2 ** 200, 0.1, -0.0, 1e-310, math.inf, -math.inf, "", "h\u00e9\n\0",
    b"\0\xff", bytearray(b"ab"), 1 - 2j, [], (), {}, [1, [2, (3,)]], {"a": 1, 2: "b", (1, "x"): None}, {1, 2},
    frozenset([3]),
    OrderedDict([("b", 1), ("a", 2)]), Counter("aab"),
])
def test_plain_values(value):
    loaded = round_trip({"value": value})["value"]
    assert type(loaded) is type(value) and repr(loaded) == repr(value)


def test_nan_dtypes_and_devices():
    loaded = round_trip([math.nan, fl.float16, fl.zeros(1).device])
    assert math.isnan(loaded[0]) and loaded[1] is fl.float16 and loaded[2] == fl.zeros(1).device


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name):
    tensor = fl.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(fl, name))
    loaded = round_trip(tensor)
    assert loaded.dtype is tensor.dtype and loaded.tolist() == tensor.tolist()


def test_shapes_and_strides():
    base = fl.arange(24).reshape(2, 3, 4)
    for tensor in (base.permute(2, 0, 1), base[1], base[:, ::2], fl.zeros(0, 3), fl.tensor(5), base[0:0]):
        loaded = round_trip(tensor)
        assert loaded.shape == tensor.shape and loaded.stride() == tensor.stride()
        assert loaded.tolist() == tensor.tolist()


def test_views_keep_sharing_one_storage():
    base = fl.zeros(1000)
    file = io.BytesIO()
    save({"all": base, "part": base[10:20], "again": base}, file)
    assert len(file.getvalue()) < 2 * 4000
    file.seek(0)
    loaded = load(file)
    loaded["all"][12] = 7
    assert loaded["part"][2].item() == 7
    assert loaded["again"] is loaded["all"]


def test_parameters_and_gradients():
    weight = Parameter(fl.ones(2))
    loaded = round_trip({"a": weight, "b": weight, "frozen": Parameter(fl.ones(1), False),
                         "leaf": fl.ones(2, requires_grad=True), "computed": weight * 2})
    assert type(loaded["a"]) is Parameter and loaded["a"].requires_grad and loaded["a"] is loaded["b"]
    assert type(loaded["frozen"]) is Parameter and not loaded["frozen"].requires_grad
    assert type(loaded["leaf"]) is fl.Tensor and loaded["leaf"].requires_grad
    assert loaded["computed"].is_leaf and loaded["computed"].tolist() == [2, 2]


def test_state_dict_in_a_file(tmp_path):
    from flambeau import nn
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    save(first.state_dict(), tmp_path / "model.fl")
    second.load_state_dict(load(str(tmp_path / "model.fl")))
    assert second.weight.tolist() == first.weight.tolist()


def test_storages_are_aligned(tmp_path):
    path = tmp_path / "x.fl"
    save([fl.ones(3), fl.ones(5) * 2], path)
    data = path.read_bytes()
    for value in (1, 2):
        pattern = fl.tensor([float(value)] * 3).numpy().tobytes()
        assert data.index(pattern) % 64 == 0


def test_map_location():
    file = io.BytesIO()
    save(fl.ones(2), file)
    for where in ("cpu", fl.zeros(1).device, {"cpu": "cpu"}, lambda tensor, saved: tensor + (saved == "cpu")):
        file.seek(0)
        loaded = load(file, map_location=where)
        assert loaded.tolist() == ([1, 1] if isinstance(where, (str, dict, fl.device)) else [2, 2])


@pytest.mark.parametrize("make, place, hint", [
    (lambda: {"a": [1, {"b": object()}]}, "obj['a'][1]['b']", "what can be saved"),
    (lambda: {"f": (print,)}, "obj['f'][0]", "what can be saved"),
    (lambda: {"x": fl.ones(2).numpy()}, "obj['x']", "tensor(array)"),
    (lambda: {"model": __import__("flambeau.nn").nn.ReLU()}, "obj['model']", "state_dict()"),
])
def test_what_cannot_be_saved_is_named(make, place, hint):
    with pytest.raises(TypeError) as caught:
        save(make(), io.BytesIO())
    assert f"at {place}" in str(caught.value) and hint in str(caught.value)


def test_a_list_that_contains_itself():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="contains itself"):
        save(endless, io.BytesIO())


# ---------------------------------------------------------------------------------- broken files

@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.fl"
    save({"weight": fl.ones(100), "bias": fl.zeros(10)}, path)
    return path


@pytest.mark.parametrize("keep", [8, 63, 64, 80, -200, -1])
@pytest.mark.parametrize("as_stream", [False, True])
def test_truncated(saved, keep, as_stream):
    data = saved.read_bytes()[:keep]
    saved.write_bytes(data)
    with pytest.raises(RuntimeError) as caught:
        load(io.BytesIO(data) if as_stream else saved)
    assert "truncated" in str(caught.value)
    assert as_stream or str(saved) in str(caught.value)


def test_corrupt_data_and_header(saved):
    good = saved.read_bytes()
    ones = good.index(fl.ones(4).numpy().tobytes())
    for position, what in ((ones + 5, "storage 0 of 2 is corrupt"), (70, "the header is corrupt"),
                           (8, "another version")):
        bad = bytearray(good)
        bad[position] ^= 4
        saved.write_bytes(bad)
        with pytest.raises(RuntimeError, match=what):
            load(saved)


@pytest.mark.parametrize("content, what", [
    (b"", "an empty file"), (b"PK\3\4" + b"x" * 100, "zip"), (b"\x80\2}q\0." * 20, "pickle"),
    (b"hello" * 30, "hello"),
])
def test_other_files(tmp_path, content, what):
    path = tmp_path / "other.pt"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=what):
        load(path)


def forged(change):
    """A file with a valid checksum whose header was changed by `change(header)`."""
    import hashlib
    import json
    file = io.BytesIO()
    save([fl.ones(4)], file)
    data = file.getvalue()
    size = int.from_bytes(data[16:24], "little")
    header = json.loads(data[64:64 + size])
    change(header)
    text = json.dumps(header).encode()
    start = -(-(64 + len(text)) // 64) * 64
    body = data[-(-(64 + size) // 64) * 64:]
    preamble = save_module._PREAMBLE.pack(b"FLAMBEAU", 1, 0, len(text), start + len(body),
                                          hashlib.sha256(text).digest())
    return io.BytesIO(preamble + text + bytes(start - 64 - len(text)) + body)


@pytest.mark.parametrize("change", [
    lambda header: header["tensors"][0].update(shape=[5]),
    lambda header: header["tensors"][0].update(offset=-1),
    lambda header: header["tensors"][0].update(strides=[-1]),
    lambda header: header["tensors"][0].update(shape=[2, 2], strides=[1 << 61, 1]),
    lambda header: header["tensors"][0].update(shape=[1] * 40, strides=[1] * 40),
    lambda header: header["tensors"][0].update(dtype="object"),
    lambda header: header["storages"][0].update(bytes=1 << 60),
    lambda header: header["storages"][0].update(offset=-64),
    lambda header: header.update(tree={"os.system": ["true"]}),
    lambda header: header.pop("tree"),
])
def test_a_forged_header_reaches_no_foreign_memory(change):
    with pytest.raises(RuntimeError, match=r"\[load\]"):
        load(forged(change))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk():
    with pytest.raises(OSError, match=r"\[save\] could not write \d+ bytes"):
        save(fl.ones(10), "/dev/full")


def test_an_error_while_writing_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def write(self, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(save_module._Writer, "write", write)
    with pytest.raises(OSError, match="the old file is untouched"):
        save(fl.ones(10), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("part", [lambda x: x[5000:6000], lambda x: x[7:7], lambda x: x.view(1000, 1000)[::7, 3:9],
                                  lambda x: x[999_999], lambda x: x.view(fl.int16)[11:13]])
def test_a_part_takes_the_bytes_of_the_part(part):
    whole = fl.arange(1_000_000, dtype=fl.float32)
    shown, stream = part(whole), io.BytesIO()
    fl.save({"part": shown, "again": shown[:1] if shown.ndim else shown}, stream)
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shown.shape, shown.stride())) if shown.numel() else 0
    assert stream.tell() < reach * shown.dtype.itemsize + 2048
    stream.seek(0)
    loaded = fl.load(stream)
    assert (loaded["part"] == shown).all() and loaded["part"].stride() == shown.stride()
    if shown.numel():
        loaded["again"].fill_(3)
        assert (loaded["part"][:1] == 3).all() if shown.ndim else loaded["part"] == 3      # still one memory
