"""PyTorch's files, those in `files/` and our own: what is in them, who may be found, where tensors go."""

import collections
import copy
import datetime
import enum
import functools
import io
import os
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.tensor import serialization
from flambeau.tensor.serialization import UnpicklingError, load, safe_globals, save

FILES = pathlib.Path(__file__).parent / "files"
FORMS = [True, False]


def round_trip(value, form=True, **options):
    stream = io.BytesIO()
    save(value, stream, _use_new_zipfile_serialization=form)
    stream.seek(0)
    return load(stream, **options)


# ---------------------------------------------------------------------------------- what PyTorch wrote
def test_every_dtype():
    loaded = load(FILES / "dtypes.pt")
    assert len(loaded) == 15
    for name, tensor in loaded.items():
        assert tensor.dtype is getattr(fl, name)
        want = [[0, 1, 2], [1, 0, 3]] if name != "bool" else [[False, True, True], [True, False, True]]
        assert tensor.tolist() == want


@pytest.mark.parametrize("name", ["values.pt", "values_older.pt", "values_protocol5.pt"])
def test_values_and_views(name):
    loaded = load(FILES / name)
    x = loaded["x"]
    assert x.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert loaded["columns"].stride() == (1, 4) and loaded["wide"].stride() == (0, 1)
    assert (
        loaded["wide"].tolist() == [[0, 1, 2, 3]] * 2 and loaded["one"].item() == 11 and loaded["again"] is x
    )
    x[2, 3] = 50
    assert loaded["one"].item() == loaded["rows"][1, 3].item() == loaded["columns"][3, 2].item() == 50
    assert type(loaded["parameter"]) is nn.Parameter and not loaded["parameter"].requires_grad
    assert (
        loaded["attributed"].tag == "first"
        and loaded["leaf"].requires_grad
        and loaded["empty"].shape == (2, 0)
    )
    assert loaded["set"] == {1, 2} and loaded["counter"] == collections.Counter("aab")
    assert list(loaded["ordered"]) == ["b", "a"] and loaded["default"].default_factory is list
    assert loaded["bytes"] == b"\0\xff" and loaded["complex"] == 1 - 2j and type(loaded["size"]) is fl.Size
    assert (
        loaded["dtype"] is fl.float16
        and loaded["device"] == fl.device("cpu")
        and "strided" in str(loaded["layout"])
    )


def test_other_forms():
    loaded = load(FILES / "forms.pt")
    assert loaded["coo"].to_dense().tolist() == loaded["csr"].to_dense().tolist() == fl.eye(3).tolist()
    assert loaded["meta"].device.type == "meta" and loaded["meta"].shape == (2, 3)
    assert (loaded["numpy"] == numpy.arange(6.0).reshape(2, 3)).all() and loaded["number"] == numpy.float32(
        1.5
    )
    assert type(loaded["number"]) is numpy.float32


def test_a_checkpoint_goes_on():
    loaded = load(FILES / "checkpoint.pt")
    model = nn.Linear(2, 2)
    assert loaded["model"]._metadata[""] == {"version": 1}
    model.load_state_dict(loaded["model"])
    assert model.weight.tolist() == loaded["weight"]
    optimizer = fl.optim.Adam(model.parameters()) if hasattr(fl, "optim") else None
    optimizer.load_state_dict(loaded["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1 and set(optimizer.state_dict()["state"]) == {0, 1}
    fl.optim.lr_scheduler.StepLR(optimizer, 5).load_state_dict(loaded["scheduler"])
    model(fl.ones(3, 2)).square().sum().backward()
    optimizer.step()
    assert optimizer.state[model.weight]["step"] == 2


def test_a_whole_module():
    with pytest.raises(UnpicklingError, match=r"GLOBAL torch\.nn\.modules\.container\.Sequential"):
        load(FILES / "module.pt")
    model = load(FILES / "module.pt", weights_only=False)
    assert type(model) is nn.Sequential and type(model.inner["conv"]) is nn.Conv2d
    assert model.alias is model.layer and model.tied.data_ptr() == model.layer.weight.data_ptr()
    out, _ = model.inner["lstm"](model.norm(model.act(model.layer(fl.ones(3, 2)))))
    assert out.shape == (3, 6) and model.inner["conv"](fl.ones(1, 1, 4, 4)).shape == (1, 2, 4, 4)
    kinds = [nn.Sequential, nn.Linear, nn.GELU, nn.BatchNorm1d, nn.ModuleDict, nn.LSTM, nn.Conv2d]
    with safe_globals(kinds):
        assert repr(load(FILES / "module.pt")) == repr(model)


def test_weights_of_a_scripted_module():
    with pytest.warns(UserWarning, match="TorchScript"):
        weights = load(FILES / "scripted.pt")
    assert list(weights) == ["scale", "inner.weight", "inner.bias"]  # `other` is neither parameter nor buffer
    assert weights["inner.weight"].tolist() == [[1, 2]] and type(weights["inner.weight"]) is nn.Parameter
    assert weights["scale"].tolist() == [2, 2]
    nn.Linear(2, 1).load_state_dict(
        {key[6:]: value for key, value in weights.items() if key.startswith("inner.")}
    )


# ---------------------------------------------------------------------------------- our own
def test_a_file_has_pytorchs_records(tmp_path):
    save({"a": fl.ones(3), "b": fl.zeros(2, dtype=fl.uint16)}, tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == [
            f"model/{name}"
            for name in (
                "data.pkl",
                ".format_version",
                ".storage_alignment",
                "byteorder",
                "data/0",
                "data/1",
                "version",
                ".data/serialization_id",
            )
        ]
        assert (
            archive.read("model/version") == b"3\n"
            and archive.read("model/byteorder") == sys.byteorder.encode()
        )
        assert len(archive.read("model/.data/serialization_id")) == 40
        raw = (tmp_path / "model.pt").read_bytes()
        for entry in archive.infolist():
            size = len(entry.filename) + int.from_bytes(
                raw[entry.header_offset + 28 : entry.header_offset + 30], "little"
            )
            assert (entry.header_offset + 30 + size) % 64 == 0


@pytest.mark.parametrize("form", FORMS)
def test_views_stay_views(form):
    x = fl.arange(10.0)
    loaded = round_trip({"x": x, "part": x[2:5], "bits": x.view(fl.int32)[1:3]}, form)
    loaded["x"][2] = 7
    assert loaded["part"].tolist() == [7, 3, 4]
    assert (
        loaded["bits"].dtype is fl.int32 and loaded["bits"][1].item() == fl.tensor(7.0).view(fl.int32).item()
    )
    assert loaded["bits"].untyped_storage() == loaded["x"].untyped_storage()


class Net(nn.Module):
    """A user's model."""

    def __init__(self):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(4, 2, 8)
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5)
        self.head.weight = self.embed.weight
        self.register_buffer("seen", fl.zeros(1), persistent=False)
        self.make_norm = functools.partial(nn.LayerNorm, eps=1e-3)
        self.shade = Shade.DARK
        self.options = Options(3)

    def forward(self, x):
        return self.head(self.inner(self.embed(x)))


class Shade(enum.Enum):
    LIGHT, DARK = 1, 2


Point = collections.namedtuple("Point", "x y")


class Options:
    def __init__(self, width):
        self.width = width

    class Inner:
        __slots__ = ("value",)


@pytest.mark.parametrize("form", FORMS)
def test_models_of_the_program(form):
    model = Net()
    loaded = round_trip(model, form, weights_only=False)
    assert type(loaded) is Net and loaded.head.weight is loaded.embed.weight and loaded.shade is Shade.DARK
    assert (
        loaded.options.width == 3
        and loaded.make_norm(4).eps == 1e-3
        and loaded.inner.activation is nn.functional.relu
    )
    loaded.eval(), model.eval()
    assert (loaded(fl.tensor([[1, 2]])) == model(fl.tensor([[1, 2]]))).all()
    assert set(loaded.state_dict()) == set(model.state_dict())


def test_other_objects_of_the_program():
    inner = Options.Inner()
    inner.value = [1]
    values = [
        Point(1, 2),
        inner,
        datetime.date(2020, 1, 2),
        datetime.timedelta(3),
        pathlib.PurePosixPath("a/b"),
        collections.deque([1, 2], 3),
        frozenset([1]),
        touch_nothing,
    ]
    loaded = round_trip(values, weights_only=False)
    assert loaded[0] == Point(1, 2) and type(loaded[0]) is Point and loaded[1].value == [1]
    assert loaded[2:4] == values[2:4] and str(loaded[4]) == "a/b"
    assert (
        loaded[5] == values[5] and loaded[5].maxlen == 3 and loaded[6] == {1} and loaded[7] is touch_nothing
    )
    for value in (Point(1, 2), inner, datetime.date(2020, 1, 2), touch_nothing):
        with pytest.raises(UnpicklingError, match="Weights only load failed"):
            round_trip(value)


def touch_nothing():
    """A function, which may be data."""


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(protocol):
    stream = io.BytesIO()
    save([nn.Linear(2, 1), {"x": b"a", 2: {1}}, numpy.arange(2)], stream, pickle_protocol=protocol)
    stream.seek(0)
    layer, values, array = load(stream, weights_only=False)
    assert type(layer) is nn.Linear and values == {"x": b"a", 2: {1}} and array.tolist() == [0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_several_objects_in_one_stream(form):
    stream = io.BytesIO()
    save({"a": fl.ones(2)}, stream, _use_new_zipfile_serialization=form)
    if not form:
        save(fl.zeros(3), stream, _use_new_zipfile_serialization=False)
    stream.seek(0)
    assert load(stream)["a"].tolist() == [1, 1]
    if not form:
        assert load(stream).tolist() == [0, 0, 0]


def test_fl_load_tells_all_formats_apart(tmp_path):
    fl.save({"a": fl.ones(2)}, tmp_path / "own.bin")
    save({"a": fl.ones(2)}, tmp_path / "zip.bin")
    save({"a": fl.ones(2)}, tmp_path / "older.bin", _use_new_zipfile_serialization=False)
    for path in tmp_path.iterdir():
        assert fl.load(path)["a"].tolist() == [1, 1]
        with open(path, "rb") as file:
            assert fl.load(file)["a"].tolist() == [1, 1]


def test_a_tar_is_refused():
    with pytest.raises(UnpicklingError, match="tar format"):
        load(io.BytesIO(b"storages" + bytes(249) + b"ustar\x0000" + bytes(300)))


# ---------------------------------------------------------------------------------- where tensors go
def located(place):
    """A file whose tensors were on another device."""
    from flambeau.tensor.torch_zip import Archive, ArchiveWriter

    stream, out = io.BytesIO(), io.BytesIO()
    save({"a": fl.ones(2), "b": [fl.zeros(1)]}, stream)
    archive, writer = Archive(io.BytesIO(stream.getvalue())), ArchiveWriter(out, "archive")
    for name in archive.names():
        data = archive.read(name)
        writer.add(name, data.replace(b"X\3\0\0\0cpu", b"X" + bytes([len(place), 0, 0, 0]) + place.encode()))
    writer.close()
    return io.BytesIO(out.getvalue())


def test_tensors_of_absent_devices_need_a_map_location():
    with pytest.raises(RuntimeError, match=r"map_location='cpu'"):
        load(located("cuda:0"))
    for where in ("cpu", fl.device("cpu"), {"cuda:0": "cpu"}, lambda storage, place: storage):
        assert load(located("cuda:0"), map_location=where)["a"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="cuda"):
        load(located("cpu"), map_location="cuda")
    with pytest.raises(RuntimeError, match="cuda"):
        load(located("cuda:0"), map_location={"cuda:1": "cpu"})
    assert load(located("cuda:0"), map_location="meta")["a"].device.type == "meta"


def test_a_function_sees_storages_and_places():
    seen = []

    def place(storage, where):
        seen.append((storage.nbytes(), where))
        return storage.clone()

    assert load(located("cuda:3"), map_location=place)["a"].tolist() == [1, 1]
    assert seen == [(8, "cuda:3"), (4, "cuda:3")]


def test_registered_places():
    def bring(storage, place):
        return storage if place == "moon" else None

    with pytest.raises(RuntimeError, match="moon"):
        load(located("moon"))
    serialization.register_package(5, lambda storage: None, bring)
    try:
        assert load(located("moon"))["a"].tolist() == [1, 1]
    finally:
        from flambeau.tensor import torch_places

        torch_places._PACKAGES.clear()


def test_mmap_reads_when_used_and_leaves_the_file(tmp_path):
    path = tmp_path / "big.pt"
    save({"w": fl.ones(1 << 22), "b": fl.arange(3)}, path)
    before = fl.memory.stats()["live_bytes"]
    loaded = load(path, mmap=True)
    assert fl.memory.stats()["live_bytes"] - before < 1 << 20  # 16 MB are mapped, not read
    assert loaded["w"].sum().item() == 1 << 22 and loaded["b"].tolist() == [0, 1, 2]
    loaded["b"][0] = 9
    assert load(path)["b"].tolist() == [0, 1, 2]
    del loaded
    with pytest.raises(ValueError, match="path"):
        load(io.BytesIO(path.read_bytes()), mmap=True)
    save(fl.ones(1), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="zip format"):
        load(path, mmap=True)


def test_files_of_the_other_byte_order():
    from flambeau.tensor.torch_zip import Archive, ArchiveWriter

    x = {
        "f": fl.tensor([1.5, -2.0]),
        "c": fl.tensor([1 + 2j]),
        "u": fl.tensor([258]).to(fl.uint16),
        "i": fl.tensor([3, 4]),
    }
    stream, out = io.BytesIO(), io.BytesIO()
    save(x, stream)
    archive, writer = Archive(io.BytesIO(stream.getvalue())), ArchiveWriter(out, "archive")
    swaps = iter(("f4", "f4", "u2", "i8"))
    for name in archive.names():
        data = archive.read(name)
        if name.startswith("data/"):
            data = numpy.frombuffer(data, next(swaps)).byteswap().tobytes()
        writer.add(name, b"big" if name == "byteorder" else data)
    writer.close()
    loaded = load(io.BytesIO(out.getvalue()))
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {
        name: tensor.tolist() for name, tensor in x.items()
    }


# ---------------------------------------------------------------------------------- who may be found
def test_safe_globals():
    model = nn.Sequential(nn.Linear(2, 2))
    serialization.add_safe_globals([nn.Sequential])
    try:
        with pytest.raises(UnpicklingError, match=r"GLOBAL torch\.nn\.modules\.linear\.Linear"):
            round_trip(model)
        with safe_globals([nn.Linear]):
            assert serialization.get_safe_globals() == [nn.Sequential, nn.Linear]
            assert type(round_trip(model)) is nn.Sequential
        assert serialization.get_safe_globals() == [nn.Sequential]
    finally:
        serialization.clear_safe_globals()
    with safe_globals([(Options, "elsewhere.Settings"), Point]):
        assert round_trip(Point(1, 2)) == Point(1, 2)
    with pytest.raises(TypeError):
        serialization.add_safe_globals(["os.system"])


def test_unsafe_globals_are_listed_without_loading(tmp_path):
    save([nn.Linear(1, 1), Point(1, 2), fl.ones(1)], tmp_path / "x.pt")
    found = serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt")
    assert set(found) == {"torch.nn.modules.linear.Linear", f"{__name__}.Point"}
    with safe_globals([nn.Linear]):
        assert serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt") == [f"{__name__}.Point"]


def test_the_environment_has_a_say(monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert round_trip(Point(1, 2)) == Point(1, 2)
    with pytest.raises(UnpicklingError):
        round_trip(Point(1, 2), weights_only=True)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(UnpicklingError):
        round_trip(Point(1, 2), weights_only=False)


def test_what_is_absent_is_named():
    with pytest.raises(UnpicklingError, match="float8_e4m3fn is not available"):
        round_trip_of(b"\x80\2ctorch\nfloat8_e4m3fn\n.")
    with pytest.raises(
        UnpicklingError, match=r"torch\.nn\.modules\.nothing\.Nothing, which Flambeau does not have"
    ):
        round_trip_of(b"\x80\2ctorch.nn.modules.nothing\nNothing\n)\x81.", weights_only=False)


def round_trip_of(pickled, **options):
    from flambeau.tensor.torch_zip import ArchiveWriter

    stream = io.BytesIO()
    writer = ArchiveWriter(stream, "archive")
    writer.add("data.pkl", pickled)
    writer.close()
    stream.seek(0)
    return load(stream, **options)


# ---------------------------------------------------------------------------------- saving is all or nothing
class Stubborn:
    def __reduce__(self):
        raise RuntimeError("not me")


def test_an_error_in_the_midst_leaves_nothing(tmp_path):
    path, stream = tmp_path / "x.pt", io.BytesIO()
    save([1], path)
    before = path.read_bytes()
    for target in (path, tmp_path / "new.pt", stream):
        with pytest.raises(RuntimeError, match="not me"):
            save([fl.ones(3), Stubborn()], target)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.pt"] and not stream.getvalue()
    with pytest.raises(RuntimeError, match="does not exist"):
        save([1], tmp_path / "nowhere" / "x.pt")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk():
    with pytest.raises(OSError, match=r"\[save\] could not write \d+ bytes"):
        save(fl.ones(10), "/dev/full")


@pytest.mark.parametrize("protocol", [2, 5])
def test_plain_pickle_and_copies_keep_working(protocol):
    model = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 2), nn.Conv1d(2, 2, 1))
    for made in (pickle.loads(pickle.dumps(model, protocol)), copy.deepcopy(model)):
        assert repr(made) == repr(model)
        assert all((a == b).all() for a, b in zip(made.parameters(), model.parameters()))
        assert made[1](fl.ones(4, 1, 3))[0].shape == (4, 1, 2)


def test_another_process_loads_it(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    save(model, tmp_path / "model.pt")
    where = str(tmp_path / "model.pt")
    program = f"import flambeau; print(type(flambeau.load({where!r}, weights_only=False)[0]).__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "Linear", done.stderr


def test_settings():
    import mmap

    stream = io.BytesIO()
    serialization.set_crc32_options(False)
    try:
        save(fl.ones(2), stream)
    finally:
        serialization.set_crc32_options(True)
    stream.seek(0)
    assert load(stream).tolist() == [1, 1]
    with serialization.skip_data():
        stream = io.BytesIO()
        save(fl.ones(2), stream)
    stream.seek(0)
    assert load(stream).tolist() == [0, 0]
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    serialization.set_default_load_endianness(serialization.LoadEndianness.LITTLE)
    assert serialization.get_default_load_endianness() is serialization.LoadEndianness.LITTLE
    serialization.set_default_load_endianness(None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[5000:6000],
        lambda x: x[7:7],
        lambda x: x.view(1000, 1000)[::7, 3:9],
        lambda x: x[999_999],
        lambda x: x.view(fl.int16)[11:13],
    ],
)
def test_a_part_takes_the_bytes_of_the_part(part, form):
    shown, stream = part(fl.arange(1_000_000, dtype=fl.float32)), io.BytesIO()
    save(
        {"part": shown, "again": shown[:1] if shown.ndim else shown},
        stream,
        _use_new_zipfile_serialization=form,
    )
    reach = (
        1 + sum((size - 1) * stride for size, stride in zip(shown.shape, shown.stride()))
        if shown.numel()
        else 0
    )
    assert stream.tell() < reach * shown.dtype.itemsize + 4096
    stream.seek(0)
    loaded = load(stream)
    assert (loaded["part"] == shown).all() and loaded["part"].stride() == shown.stride()
    if shown.numel() and shown.ndim:
        loaded["again"].fill_(3)
        assert (loaded["part"][:1] == 3).all()  # still one memory


def test_a_storage_is_written_whole():
    x = fl.arange(10_000.0)
    loaded = round_trip([x[:3], x.untyped_storage()])
    assert loaded[1].nbytes() == 40_000 and loaded[0].tolist() == [0, 1, 2]


def test_versions_of_modules_travel_with_the_state():
    class Versioned(nn.Module):
        _version = 5
        seen = None

        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            self.seen = dict(local_metadata)
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    model = Versioned()
    state = model.state_dict()
    assert state._metadata == {"": {"version": 5}, "norm": {"version": 2}}
    loaded = round_trip(state)
    assert loaded._metadata == state._metadata
    model.load_state_dict(loaded)
    assert model.seen == {"version": 5}
    model.load_state_dict(dict(loaded))
    assert model.seen == {}
    del loaded["norm.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        model.load_state_dict(loaded)
    model.load_state_dict(dict(loaded))  # of a file without versions


def test_small_questions():
    assert serialization.storage_to_tensor_type(fl.ones(2).storage()) is fl.FloatTensor
    assert serialization.normalize_storage_type(fl.FloatStorage) is fl.FloatStorage
    assert serialization.check_module_version_greater_or_equal(numpy, (1, 0))
    assert not serialization.check_module_version_greater_or_equal(numpy, (99,))
