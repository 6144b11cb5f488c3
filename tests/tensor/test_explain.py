"""The graph explained and drawn: rows, bytes, names, lines; the picture's boxes do not overlap and nothing is
lost."""

import io
import re
import xml.etree.ElementTree as xml

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.autograd import draw, explain
from flambeau.tensor.folding import fold

F = nn.functional


def network():
    fl.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def block(width=16):
    """A residual block with three branches, as a function of x and its weights."""
    weights = [fl.randn(width, width).requires_grad_(True) for _ in range(3)]

    def run(x):
        q, k, v = (x @ w for w in weights)
        return x + fl.softmax(q @ k.t(), -1) @ v
    return run


# ---------------------------------------------------------------------------------- explain
def test_rows_have_ops_shapes_inputs_and_names():
    model, x = network(), fl.randn(5, 4)
    report = explain(model(x).sum(), model=model)
    assert [row.op for row in report.rows] == ["linear", "relu", "linear", "sum"]
    assert [row.shape for row in report.rows] == [(5, 8), (5, 8), (5, 3), ()]
    assert all(row.dtype is fl.float32 for row in report.rows)
    assert [leaf.name for leaf in report.leaves] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert report.rows[1].inputs == (0,) and report.rows[2].inputs[0] == 1
    assert report.rows[0].inputs[0] is None and report.rows[0].inputs[1].name == "0.weight"


def test_bytes_are_those_that_the_graph_alone_keeps():
    x = fl.ones(1000, requires_grad=True)
    y = x.exp()                         # keeps its output: 4000 bytes
    z = (y * y).sum()                   # keeps y again: not counted twice
    report = explain(z)
    assert report.saved_bytes == 4000 and report.leaf_bytes == 4000
    assert [row.saved for row in report.rows] == [4000, 0, 0]
    assert [row.op for row in report.largest()] == ["exp"]
    assert explain((x * x).sum()).saved_bytes == 0          # x itself is alive anyway


def test_the_live_bytes_grow_by_what_is_reported():
    x = fl.ones(1 << 20, requires_grad=True)
    before = fl.memory.stats()["live_bytes"]
    z = (x.exp().sin() * 2).tanh().sum()
    held = fl.memory.stats()["live_bytes"] - before
    assert abs(held - explain(z).saved_bytes) < 20_000


def test_a_users_function_counts_what_it_saved():
    class Keep(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 2)
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]
    report = explain(Keep.apply(fl.ones(10, requires_grad=True)))
    assert report.rows[0].op == "Keep" and report.rows[0].kind == "function" and report.saved_bytes == 40


def test_lines_of_the_program():
    x = fl.ones(3, requires_grad=True)
    y = x.exp()         # this line
    z = y.sum()
    report = explain(z)
    first, second = (row.source[1] for row in report.rows)
    assert second == first + 1 and "y = x.exp()         # this line" in str(report)
    assert report.by_line()[0][0] == report.rows[0].source and report.by_line()[0][1] == 12


def test_the_line_is_that_of_the_innermost_function_outside_the_package():
    def forward(x):
        return fl.nn.functional.gelu(
            model(x))       # modules and functions of the package are passed over

    model = fl.nn.Sequential(fl.nn.Linear(3, 3), fl.nn.Tanh())
    node = forward(fl.ones(2, 3)).grad_fn
    start = forward.__code__.co_firstlineno
    assert node.recorded_at == (__file__, start + 1)
    assert node.next_functions[0][0].recorded_at == (__file__, start + 2)


def test_lines_in_generators_threads_and_comprehensions():
    import threading

    x = fl.ones(3, requires_grad=True)

    def products():
        yield x * 2

    made = [*products(), *[x * factor for factor in (3,)]]
    thread = threading.Thread(target=lambda: made.append(x * 4))
    thread.start()
    thread.join()
    lines = [t.grad_fn.recorded_at[1] for t in made]
    first = products.__code__.co_firstlineno
    assert lines == [first + 1, first + 3, first + 4]


def test_leaves_are_named_as_the_callers_variables():
    weight = fl.ones(3, requires_grad=True)
    assert "weight" in str(explain((weight * 2).sum()))


def test_text_and_html_show_all_that_counts():
    model = network()
    report = explain(F.mse_loss(model(fl.randn(5, 4)), fl.zeros(5, 3)), model)
    text = str(report)
    for word in ("0.weight", "5×8", "float32", "relu", "ops; the graph keeps", "most is kept by"):
        assert word in text
    page = report._repr_html_()
    assert page.count("<tr") == len(report.rows) + 1 and "0.weight" in page


def test_long_graphs_are_cut_in_the_text_only():
    x = fl.ones(3, requires_grad=True)
    y = x
    for _ in range(500):
        y = y.sin()
    report = explain(y.sum())
    assert len(report.rows) == 501 and len(str(report).splitlines()) < 100
    assert "441 more in .rows" in str(report)


def test_after_backward_nothing_is_kept():
    x = fl.ones(3, requires_grad=True)
    z = x.exp().sum()
    z.backward()
    report = explain(z)
    assert report.saved_bytes == 0 and "nothing is kept" in str(report)


def test_what_has_no_history_is_refused():
    with pytest.raises(RuntimeError, match="no recorded history"):
        explain(fl.ones(3))
    with pytest.raises(RuntimeError, match="no recorded history"):
        explain([fl.ones(3, requires_grad=True)])


def test_several_roots_share_their_rows():
    x = fl.ones(3, requires_grad=True)
    y = x.exp()
    report = explain([y.sum(), y.mean()])
    assert [row.op for row in report.rows] == ["exp", "sum", "mean"] and report.roots == [1, 2]


# ---------------------------------------------------------------------------------- draw
def picture(tensors, **options):
    file = io.StringIO()
    report = draw(tensors, file, **options)
    return report, xml.fromstring(file.getvalue())


def boxes(root):
    """[(first line, x, y, width, height)] of the boxes of a picture."""
    found = []
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        rectangle = group.find("{http://www.w3.org/2000/svg}rect")
        words = group.find("{http://www.w3.org/2000/svg}text")[0].text
        found.append((words, *(float(rectangle.get(name)) for name in ("x", "y", "width", "height"))))
    return found


def overlap(a, b):
    return a[1] < b[1] + b[3] and b[1] < a[1] + a[3] and a[2] < b[2] + b[4] and b[2] < a[2] + a[4]


PICTURES = {"a number": lambda: fl.ones(3, requires_grad=True).sum(),
            "layers": lambda: network()(fl.randn(5, 4)).sum(),
            "branches": lambda: block()(fl.randn(5, 16)).sum(),
            "images": lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                                            nn.Linear(144, 2))(fl.randn(2, 1, 8, 8)).mean()}


@pytest.mark.parametrize("name", PICTURES)
def test_every_op_and_leaf_has_a_box_and_no_two_overlap(name):
    report, root = picture(PICTURES[name]())
    found = boxes(root)
    assert len(found) == len(report.rows) + len(report.leaves)
    assert not [(a[0], b[0]) for i, a in enumerate(found) for b in found[:i] if overlap(a, b)]
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(0 <= x and 0 <= y and x + w <= width and y + h <= height for _, x, y, w, h in found)


def test_the_forward_pass_reads_from_top_to_bottom():
    _, root = picture(network()(fl.randn(5, 4)).sum())
    heights = {words: y for words, _, y, _, _ in boxes(root)}
    assert heights["relu"] < heights["sum"]
    curves = [p.get("d") for p in root.iter("{http://www.w3.org/2000/svg}path") if p.get("marker-end")]
    assert len(curves) == 3 + 4
    for curve in curves:
        numbers = [float(n) for n in re.findall(r"-?\d+\.\d+", curve)]
        assert numbers[1] < numbers[-1]


def test_a_file_is_written_and_text_is_escaped(tmp_path):
    path = tmp_path / "graph.svg"
    draw(fl.ones(3, requires_grad=True).sum(), path)
    assert xml.parse(path).getroot().tag.endswith("svg")


def test_repeats_and_chains_are_folded():
    layers = [block() for _ in range(60)]
    y = fl.randn(5, 16)
    for layer in layers:
        y = layer(y)
    report, root = picture(y.sum(), max_boxes=50)
    assert len(report.rows) > 400 and len(boxes(root)) < 60
    assert any("59 more rounds of the" in words[0] for words in boxes(root))
    x = fl.ones(3, requires_grad=True)
    y = x
    for i in range(400):
        y = (y.sin(), y.cos(), y.exp(), y.tanh())[i * i % 7 % 4]
    _, root = picture(y.sum())
    assert len(boxes(root)) < 60


def test_folds_keep_every_row_once_and_in_order():
    x = fl.ones(3, requires_grad=True)
    y = x
    for i in range(300):
        y = y.sin() + (x if i * i % 11 < 4 else y) * (2 if i % 3 else y.cos())
    rows = explain(y.sum()).rows
    for most in (1, 10, 100, 5000):
        groups = fold(rows, most)
        assert [row.number for group in groups for row in group.rows] == list(range(len(rows)))
        assert len(groups) <= max(most, 1)
