"""SummaryWriter: what it writes, read by our own reader and, where it is installed, by TensorBoard's."""

import io
import os
import struct
import subprocess
import sys
import time
import wave
import zlib

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.track import FileWriter, SummaryWriter, read_events, read_scalars
from flambeau.track.messages import decode, encode


def values(folder):
    return {
        value["tag"]: value
        for event in read_events(folder)
        for value in event.get("summary", {}).get("value", ())
    }


def pixels(data):
    """The array in a PNG whose lines have filter 0."""
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    channels = {2: 3, 6: 4}[kind]
    at, packed = 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + body)
        packed += body if name == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width * channels + 1)
    assert depth == 8 and not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("number", 0.5, 1, walltime=7.0)
        writer.add_scalar("tensor", fl.tensor([0.25], requires_grad=True), fl.tensor(2))
        writer.add_scalar("half", fl.ones(1, dtype=fl.bfloat16))
        writer.add_scalar("array", np.float64(3), 3)
        writer.add_scalar("new", 0.1, new_style=True)
        writer.add_scalar("double", 0.1, new_style=True, double_precision=True)
        writer.add_scalar("nan", float("nan"), 1)
    assert read_scalars(tmp_path) == {
        "number": [(1, 0.5)],
        "tensor": [(2, 0.25)],
        "half": [(0, 1.0)],
        "array": [(3, 3.0)],
        "nan": [(1, pytest.approx(float("nan"), nan_ok=True))],
    }
    found = values(tmp_path)
    assert found["new"]["tensor"]["float_val"] == [np.float32(0.1)]
    assert found["double"]["tensor"]["double_val"] == [0.1]
    assert found["new"]["metadata"]["plugin_data"]["plugin_name"] == "scalars"
    head, first = list(read_events(tmp_path))[:2]
    assert head["file_version"] == "brain.Event:2" and first["wall_time"] == 7.0 and first["step"] == 1


@pytest.mark.parametrize(
    "value, error", [(None, NotImplementedError), (fl.ones(2), AssertionError), ("name", NotImplementedError)]
)
def test_what_is_no_scalar(tmp_path, value, error):
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match="scalar"):
        writer.add_scalar("a", value)


def test_scalars_of_one_panel_have_folders_of_their_own(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss/all", {"train": 1.0, "test": fl.tensor(2.0)}, 4)
    assert read_scalars(tmp_path / "loss_all_train") == {"loss/all": [(4, 1.0)]}
    assert read_scalars(tmp_path / "loss_all_test") == {"loss/all": [(4, 2.0)]}


def test_histogram_buckets(tmp_path):
    data = fl.tensor([0.0, 1.0, -1.0, 2.0, 2.0, 1e-3])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("default", data)
        writer.add_histogram("limits", fl.arange(20.0), bins=[0, 5, 10, 15, 40, 80])
        writer.add_histogram("few", fl.arange(20.0), bins="auto", max_bins=2)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("empty", fl.zeros(0))
        with pytest.raises(ValueError, match="NaN"):
            writer.add_histogram("nan", fl.full((3,), float("nan")))
        with pytest.raises(ValueError, match="2 limits and 1 counts"):
            writer.add_histogram_raw("raw", 0, 1, 1, 1, 1, [0, 1], [1])
    found = values(tmp_path)
    histogram = found["default"]["histo"]
    limits, counts = np.array(histogram["bucket_limit"]), np.array(histogram["bucket"])
    assert (histogram["min"], histogram["max"], histogram["num"]) == (-1, 2, 6) and counts.sum() == 6
    assert histogram["sum_squares"] == pytest.approx(10.000001)
    assert (
        counts[0] == 0
        and counts[1] == counts[-1] / 2 == 1
        and limits[0] < -1 <= limits[1]
        and limits[-2] <= 2
    )
    growth = limits[1:][limits[1:] > 1e-11] / limits[:-1][limits[1:] > 1e-11]
    np.testing.assert_allclose(growth, 1.1)
    assert (found["limits"]["histo"]["bucket_limit"], found["limits"]["histo"]["bucket"]) == (
        [0, 5, 10, 15, 40],
        [0, 5, 5, 5, 5],
    )
    assert (found["few"]["histo"]["bucket_limit"], found["few"]["histo"]["bucket"]) == (
        [0, 9.5, 19],
        [0, 10, 10],
    )


@pytest.mark.parametrize(
    "shape, dataformats, picture",
    [
        ((3, 4, 5), "CHW", lambda x: x.transpose(1, 2, 0)),
        ((4, 5, 3), "HWC", lambda x: x),
        ((4, 5), "HW", lambda x: np.stack([x] * 3, -1)),
        ((1, 4, 5), "CHW", lambda x: np.stack([x[0]] * 3, -1)),
        ((4, 4, 5), "CHW", lambda x: x.transpose(1, 2, 0)),
    ],
)
def test_pictures(tmp_path, shape, dataformats, picture):
    array = np.random.default_rng(0).uniform(-0.2, 1.2, shape).astype("float32")
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("float", fl.tensor(array), dataformats=dataformats)
        writer.add_image("bytes", (array.clip(0, 1) * 255).astype(np.uint8), dataformats=dataformats)
    found, want = values(tmp_path), picture((array * 255).clip(0, 255).astype(np.uint8))
    for tag in ("float", "bytes"):
        image = found[tag]["image"]
        assert (image["height"], image["width"], image["colorspace"]) == want.shape
        assert (pixels(image["encoded_image_string"]) == want).all()


def test_pictures_in_a_grid(tmp_path):
    array = np.random.default_rng(0).integers(1, 255, (11, 3, 4, 5), dtype=np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_images("many", fl.tensor(array))
        with pytest.raises(AssertionError, match=r"\(4, 5\), wanted one axis a letter of CHW"):
            writer.add_image("wrong", np.zeros((4, 5)))
    whole = pixels(values(tmp_path)["many"]["image"]["encoded_image_string"])
    assert whole.shape == (8, 40, 3)
    assert (whole[:4, 5:10] == array[1].transpose(1, 2, 0)).all() and (
        whole[4:, 10:15] == array[10].transpose(1, 2, 0)
    ).all()
    assert not whole[4:, 15:].any()


def test_boxes(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_image_with_boxes("boxes", fl.zeros(3, 20, 20), fl.tensor([[2, 3, 10, 99]]))
    picture = pixels(values(tmp_path)["boxes"]["image"]["encoded_image_string"])
    assert (picture[3, 2:11] == [255, 0, 0]).all() and (picture[19, 2:11] == [255, 0, 0]).all()
    assert not picture[:3].any() and not picture[6:17, 5:8].any() and not picture[..., 1:].any()


def test_sound_and_text(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.warns(UserWarning, match="cut"):
            writer.add_audio("sound", fl.tensor([0.0, 0.5, -1.0, 2.0]), sample_rate=8000)
        writer.add_text("words", "**hello**")
    found = values(tmp_path)
    with wave.open(io.BytesIO(found["sound"]["audio"]["encoded_audio_string"])) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (8000, 1, 2)
        assert np.frombuffer(sound.readframes(9), "<i2").tolist() == [0, 16383, -32767, 32767]
    assert found["words/text_summary"]["tensor"]["string_val"] == [b"**hello**"]


def test_precision_and_recall(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve(
            "curve", fl.tensor([0, 1, 1, 0]), fl.tensor([0.1, 0.9, 0.4, 0.6]), num_thresholds=5
        )
    rows = np.frombuffer(values(tmp_path)["curve"]["tensor"]["tensor_content"], "<f4").reshape(6, 5)
    np.testing.assert_allclose(
        rows,
        [
            [2, 2, 1, 1, 0],
            [2, 1, 1, 0, 0],
            [0, 1, 1, 2, 2],
            [0, 0, 1, 1, 2],
            [0.5, 2 / 3, 0.5, 1, 0],
            [1, 1, 0.5, 0.5, 0],
        ],
        rtol=1e-6,
    )


def test_hyperparameters(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            {"lr": 0.1, "layers": 3, "act": "relu", "bias": True, "none": None},
            {"hparam/accuracy": 0.75},
            hparam_domain_discrete={"act": ["relu", "gelu"]},
            run_name="first",
        )
        with pytest.raises(ValueError, match="list"):
            writer.add_hparams({"a": [1]}, {})
        with pytest.raises(TypeError, match="dicts"):
            writer.add_hparams([1], {})
    found = values(tmp_path / "first")
    parts = {
        tag.rpartition("/")[2]: decode("HParams", value["metadata"]["plugin_data"]["content"])
        for tag, value in found.items()
        if "_hparams_" in tag
    }
    infos = parts["experiment"]["experiment"]["hparam_infos"]
    assert [(info["name"], info["type"]) for info in infos] == [
        ("lr", 3),
        ("layers", 3),
        ("act", 1),
        ("bias", 2),
    ]
    assert infos[2]["domain_discrete"]["values"] == [{"string_value": "relu"}, {"string_value": "gelu"}]
    start = {
        pair["key"]: pair["value"] for pair in parts["session_start_info"]["session_start_info"]["hparams"]
    }
    assert start == {
        "lr": {"number_value": 0.1},
        "layers": {"number_value": 3.0},
        "act": {"string_value": "relu"},
        "bias": {"bool_value": 1},
    }
    assert read_scalars(tmp_path / "first") == {"hparam/accuracy": [(0, 0.75)]}


def test_layout_of_charts(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_custom_scalars(
            {"c": {"lines": ["Multiline", ["a", "b"]], "band": ["Margin", ["v", "l", "u"]]}}
        )
        with pytest.raises(AssertionError, match="three tags"):
            writer.add_custom_scalars_marginchart(["a"])
    layout = decode("Layout", values(tmp_path)["custom_scalars__config__"]["tensor"]["string_val"][0])
    assert layout == {
        "category": [
            {
                "title": "c",
                "chart": [
                    {"title": "lines", "multiline": {"tag": ["a", "b"]}},
                    {"title": "band", "margin": {"series": [{"value": "v", "lower": "l", "upper": "u"}]}},
                ],
            }
        ]
    }


def test_embedding_files(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for _ in range(2):
            writer.add_embedding(
                fl.arange(6.0).reshape(3, 2), ["a", "b", "c"], fl.ones(3, 3, 4, 5), 2, "points"
            )
        writer.add_embedding(np.eye(2), [["x", 1], ["y", 2]], metadata_header=["name", "count"])
        with pytest.raises(AssertionError, match="one entry a point: got 1 for 2"):
            writer.add_embedding(np.eye(2), ["x"])
    assert (tmp_path / "00002/points/tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "name\tcount\nx\t1\ny\t2\n"
    sprite = pixels((tmp_path / "00002/points/sprite.png").read_bytes())
    assert sprite.shape == (8, 10, 3) and (sprite[:4] == 255).all() and not sprite[4:, 5:].any()
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and 'tensor_name: "points:00002"' in config


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Dropout())
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.body(x)) * 2 + x.sum()


def test_graph_of_a_model(tmp_path):
    model = Net()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, fl.rand(4, 2))
    graph = decode(
        "GraphDef", next(event["graph_def"] for event in read_events(tmp_path) if "graph_def" in event)
    )
    nodes = {node["name"]: node for node in graph["node"]}
    assert nodes["Net/Sequential[body]/Linear[0]/linear"]["input"] == [
        "input/input",
        "Net/Sequential[body]/Linear[0]/weight",
        "Net/Sequential[body]/Linear[0]/bias",
    ]
    assert nodes["Net/Sequential[body]/ReLU[1]/relu"]["op"] == "aten::relu"
    assert nodes["Net/add"]["input"] == ["Net/mul", "Net/sum"] and nodes["output/output.1"]["input"] == [
        "Net/add"
    ]
    shapes = {entry["key"]: entry["value"] for entry in nodes["Net/mul"]["attr"]}["_output_shapes"]["list"][
        "shape"
    ]
    assert shapes == [{"dim": [{"size": 4}, {"size": 1}]}]
    assert all(name in nodes for node in nodes.values() for name in node.get("input", ()))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_default_folder_and_comment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_lr1")
    writer.close()
    month = time.strftime("%b")
    assert writer.log_dir.startswith(os.path.join("runs", month)) and writer.get_logdir().endswith("_lr1")
    assert len(list(tmp_path.glob("runs/*_lr1/events.out.tfevents.*"))) == 1


def test_purge_step_and_suffix(tmp_path):
    SummaryWriter(tmp_path, purge_step=7, filename_suffix=".mine").close()
    assert next(tmp_path.iterdir()).name.endswith(".mine")
    assert list(read_events(tmp_path))[2] | {"wall_time": 0} == {
        "wall_time": 0,
        "step": 7,
        "session_log": {"status": 1},
    }


def test_events_wait_and_are_flushed(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=3, flush_secs=0.05)
    writer.add_scalar("a", 1.0, 0)
    assert read_scalars(tmp_path) == {}
    deadline = time.monotonic() + 5
    while not read_scalars(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert read_scalars(tmp_path) == {"a": [(0, 1.0)]}  # after flush_secs
    writer.flush_secs = writer.file_writer.event_writer.flush_secs = 100
    for step in range(1, 5):
        writer.add_scalar("a", 1.0, step)
    assert len(read_scalars(tmp_path)["a"]) == 5  # more than max_queue
    writer.add_scalar("a", 1.0, 5)
    writer.flush()
    assert len(read_scalars(tmp_path)["a"]) == 6
    writer.close()
    writer.add_scalar("a", 1.0, 6)  # a new file
    writer.close()
    assert len(read_scalars(tmp_path)["a"]) == 7 and len(list(tmp_path.iterdir())) == 2


def test_a_program_that_forgets_to_close_loses_nothing_and_a_child_writes_nothing_twice(tmp_path):
    program = f"""
import os, sys
from flambeau.track import SummaryWriter
writer = SummaryWriter({str(tmp_path)!r})
writer.add_scalar("parent", 1.0, 1)
child = os.fork()
if not child:
    if len(sys.argv) > 1:
        writer.add_scalar("child", 2.0, 1)
    sys.exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert read_scalars(tmp_path) == {"parent": [(1, 1.0)]} and len(list(tmp_path.iterdir())) == 1
    subprocess.run([sys.executable, "-c", program, "write"], check=True)
    assert read_scalars(tmp_path) == {"parent": [(1, 1.0)] * 2, "child": [(1, 2.0)]}
    assert len(list(tmp_path.iterdir())) == 3


def test_file_writer_takes_dicts_and_protocol_buffers(tmp_path):
    class Made:
        def SerializeToString(self):  # noqa: N802 - what protocol buffers call it
            return encode("Summary", {"value": [{"tag": "b", "simple_value": 2.0}]})

    writer = FileWriter(tmp_path)
    writer.add_summary({"value": [{"tag": "a", "simple_value": 1.0}]}, 3)
    writer.add_summary(Made(), 4)
    writer.reopen()
    writer.close()
    assert read_scalars(tmp_path) == {"a": [(3, 1.0)], "b": [(4, 2.0)]} and len(list(tmp_path.iterdir())) == 2


def test_video_and_mesh(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    frames = np.zeros((1, 3, 3, 8, 6), np.uint8)
    frames[0, 1] = 255
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("film", fl.tensor(frames), fps=2)
        writer.add_mesh("shape", fl.zeros(1, 3, 3), faces=fl.tensor([[[0, 1, 2]]]))
    found = values(tmp_path)
    film = pillow.open(io.BytesIO(found["film"]["image"]["encoded_image_string"]))
    assert (film.n_frames, film.size, film.info["duration"]) == (3, (6, 8), 500)
    mesh = decode("Mesh", found["shape_FACE"]["metadata"]["plugin_data"]["content"])
    assert mesh == {
        "version": 0,
        "name": "shape",
        "content_type": 2,
        "json_config": "{}",
        "shape": [1, 1, 3],
        "components": 6,
    }
    assert "shape_COLOR" not in found


def test_tensorboard_reads_it(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (1 + step), step)
        writer.add_histogram("weights", fl.linspace(-1, 1, 100), 0)
        writer.add_image("picture", fl.rand(3, 100, 100), 0)
        writer.add_text("note", "hello")
        writer.add_audio("beep", fl.zeros(100))
        writer.add_pr_curve("pr", fl.tensor([0, 1]), fl.tensor([0.2, 0.8]))
        writer.add_tensor("tensor", fl.arange(6).reshape(2, 3))
        writer.add_graph(Net(), fl.rand(4, 2))
        writer.add_scalar("new", 0.5, new_style=True)
    read = accumulators.EventAccumulator(str(tmp_path)).Reload()
    tags = read.Tags()
    assert tags["scalars"] == ["loss"] and tags["histograms"] == ["weights"] and tags["images"] == ["picture"]
    assert tags["audio"] == ["beep"] and tags["graph"]
    assert tags["tensors"] == ["note/text_summary", "pr", "tensor", "new"]
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, pytest.approx(1 / 3)),
    ]
    histogram = read.Histograms("weights")[0].histogram_value
    assert histogram.num == 100 and sum(histogram.bucket) == 100
    assert {node.op for node in read.Graph().node} >= {"aten::linear", "IO Node", "prim::GetAttr"}
    from tensorboard.util.tensor_util import make_ndarray

    assert make_ndarray(read.Tensors("tensor")[0].tensor_proto).tolist() == [[0, 1, 2], [3, 4, 5]]
