"""Autotuning: the same bits whatever is chosen, off by default, what is measured and kept, and that the table
survives damage and a restart."""

import gc
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import tune
from flambeau.compiler.conv_choices import DIRECT, WEIGHT
from flambeau.compiler.gemm_choices import PRODUCT
from flambeau.ir.graph import Node
from flambeau.runtime import _core

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Choice:
    speed: int = 0
    extra: int = 0


FAMILY = tune.Family("made up", Choice(), (Choice(1), Choice(2), Choice(3, 4)))


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Autotuning, with a table in a folder of its own."""
    monkeypatch.setattr(tune, "default_folder", lambda: str(tmp_path))
    before = _core.set_autotune(True)
    yield tmp_path
    _core.set_autotune(before)


def forget():
    """Let every plan ask again."""
    for known in gc.get_objects():
        if isinstance(known, tune.Specialiser):
            known.known.clear()
    _core.set_autotune(False)
    _core.set_autotune(True)


def always(monkeypatch, wanted):
    """Let every measurement end with the candidate number wanted(site) of its family (-1: the default)."""
    asked = []

    def measure(site):
        asked.append(site)
        candidates = site.family.candidates
        number = wanted(site)
        return (site.family.default if number < 0 else candidates[number]), 1.0, 2.0
    monkeypatch.setattr(tune, "measure", measure)
    return asked


def numbers(seed, *shape):
    return fl.from_numpy(numpy.random.default_rng(seed).normal(size=shape).astype("f4"))


def products():
    """Results of everything that has a choice, as bytes."""
    results = []
    for m, n, k in ((7, 50, 33), (14, 70, 300), (40, 130, 520)):
        a, b = numbers(m, m, k), numbers(n, k, n)
        results += [a @ b, fl.mm(b.T, a.T), fl.nn.functional.linear(a, b.T.contiguous(), numbers(1, n))]
    for shape, weight in (((2, 20, 9, 11), (40, 20, 3, 3)), ((2, 20, 5, 33), (3, 20, 3, 3))):
        x, w = numbers(4, *shape).requires_grad_(), numbers(5, *weight).requires_grad_()
        y = fl.conv2d(x, w, None, 1, 1)
        y.backward(numbers(6, *y.shape))
        results += [y.detach(), x.grad, w.grad]
    x = numbers(7, 1, 130, 6, 6)
    results.append(fl.conv2d(x, numbers(8, 33, 130, 1, 1)))
    return [result.numpy().tobytes() for result in results]


def test_off_by_default_and_switched_on_by_the_setting():
    assert fl.backends.autotune is False
    import flambeau.torch.backends.cudnn as cudnn
    with cudnn.flags(benchmark=True):
        assert fl.backends.autotune is True is cudnn.benchmark
    assert fl.backends.autotune is False is cudnn.benchmark
    with pytest.raises(TypeError, match="True or False"):
        fl.backends.autotune = 1
    run = "import flambeau as fl; print(fl.backends.autotune)"
    assert in_process(run, FLAMBEAU_AUTOTUNE="1") == "True\n"


def test_nothing_is_measured_while_it_is_off(monkeypatch, tmp_path):
    asked = always(monkeypatch, lambda site: 0)
    monkeypatch.setattr(tune, "default_folder", lambda: str(tmp_path))
    numbers(0, 13, 29) @ numbers(1, 29, 31)
    assert not asked and not list(tmp_path.glob("*.tuned"))


def test_any_choice_gives_the_same_bits(monkeypatch, folder):
    _core.set_autotune(False)
    expected = products()
    _core.set_autotune(True)
    for number in range(max(len(family.candidates) for family in (DIRECT, WEIGHT, PRODUCT))):
        asked = always(monkeypatch, lambda site: number % len(site.family.candidates))
        tune.table().clear()
        forget()
        assert products() == expected, number
        assert {site.family.name for site in asked} == {f.name for f in (DIRECT, WEIGHT, PRODUCT)}


def test_a_shape_is_measured_once_and_each_shape_on_its_own(monkeypatch, folder):
    asked = always(monkeypatch, lambda site: -1)
    a = numbers(0, 5, 23)
    for columns in (19, 21, 19, 19, 21):
        a @ numbers(1, 23, columns)
    assert [site.operands[1][1] for site in asked] == [(23, 19), (23, 21)]
    before = fl.get_num_threads()
    fl.set_num_threads(before + 1)
    try:
        a @ numbers(1, 23, 21)
    finally:
        fl.set_num_threads(before)
    assert len(asked) == 3 and len(list(folder.glob("*.tuned"))) == 3


def timed(monkeypatch, seconds):
    """Measure with a clock that says seconds(candidate, number of the run)."""
    runs = []

    def clock(plan, tensors):
        runs.append(plan)
        return seconds(plan, len(runs))
    monkeypatch.setattr(tune, "plan_of", lambda site, tensors, candidate: candidate)
    monkeypatch.setattr(tune, "seconds_of", clock)
    return runs


def made_up(*shape):
    operands = (fl.float32, shape, (1,) * len(shape)),
    return tune.Site(FAMILY, Node("made_up", (), (), ()), operands, 0)


def test_the_clock_decides(monkeypatch):
    site = made_up(4)
    runs = timed(monkeypatch, lambda choice, number: {0: 5e-5, 1: 4e-5, 2: 3e-5, 3: 9e-5}[choice.speed])
    assert tune.measure(site) == (Choice(2), 3e-5, 5e-5) and runs.count(Choice(2)) > 20
    assert runs.count(Choice(3, 4)) == 5        # far behind: given up
    timed(monkeypatch, lambda choice, number: 3e-4 if choice.speed == 2 else 3.05e-4)
    assert tune.measure(site)[0] == Choice()    # noise
    timed(monkeypatch, lambda choice, number: 1e-4 if choice.speed or number > 30 else 9e-4)
    assert tune.measure(site)[0] == Choice()    # the default was slow at first only
    runs = timed(monkeypatch, lambda choice, number: 1.0)
    assert tune.measure(site)[0] == Choice() and set(runs) == {Choice()}       # too slow to try others


def test_the_time_for_measuring_is_bounded(monkeypatch):
    spent = []
    timed(monkeypatch, lambda choice, number: spent.append(3e-3) or 3e-3 - choice.speed * 1e-6)
    tune.measure(made_up(4))
    assert sum(spent) < 1.5 * tune.BUDGET


def test_really_measured(folder):
    site_before = len(tune.table().entries())
    numbers(0, 33, 70) @ numbers(1, 70, 41)
    entry, = tune.table().entries()
    assert site_before == 0 and entry["op"] == "mm" and entry["shapes"] == [[33, 70], [70, 41]]
    assert 0 < entry["seconds"] <= entry["default"] < 0.05
    assert PRODUCT.read(entry["choice"]) in (PRODUCT.default, *PRODUCT.candidates)


def test_damaged_and_foreign_entries_are_ignored(monkeypatch, folder):
    asked = always(monkeypatch, lambda site: 2)
    a, b = numbers(0, 6, 27), numbers(1, 27, 35)
    expected = (a @ b).numpy()
    file, = folder.glob("*.tuned")
    good = file.read_bytes()
    key = asked[0].key()
    for damage in (b"", b"nonsense", good[:-3], good[:60] + b"x" + good[61:]):
        file.write_bytes(damage)
        tune._TABLES.clear()
        assert tune.table().get(key) is None
    for content in (b"[1]", b"{}", b'{"op": 1, "seconds": "x"}', b"\xff"):
        tune.table().files.put(tune._place(key), content)
        assert tune.table().get(key) is None and tune.table().entries() == []
    tune.table().put(key, {"op": "mm", "shapes": [], "threads": 2, "choice": {"rows": 77}, "seconds": 1,
                           "default": 1})
    forget()
    numpy.testing.assert_array_equal((a @ b).numpy(), expected)
    assert tune.choose(asked[0]) == PRODUCT.candidates[2] and len(asked) > 1


def test_not_measured_with_indices_or_without_elements():
    assert not made_up(4, 0).is_measurable() and made_up(4).is_measurable()
    site = made_up(4)
    assert not tune.Site(FAMILY, site.node, ((fl.int64, (4,), (1,)),), 0).is_measurable()


PROGRAM = """
import flambeau as fl
from flambeau.compiler import tune
calls = []
real = tune.measure
tune.measure = lambda site: calls.append(site) or real(site)
fl.backends.autotune = True
x, w = fl.ones(2, 6, 9, 9), fl.ones(5, 6, 3, 3)
print(len(calls) if fl.conv2d(x, w).sum() else 0, [e["choice"] for e in tune.table().entries()])
"""


def in_process(program, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                          timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_survives_a_restart(tmp_path):
    first = in_process(PROGRAM, FLAMBEAU_CACHE=str(tmp_path))
    second = in_process(PROGRAM, FLAMBEAU_CACHE=str(tmp_path))
    assert first.startswith("1 [") and second == first.replace("1 [", "0 [", 1)
    shown = in_process("import sys; from flambeau.cli import main; sys.exit(main(['cache']))",
                       FLAMBEAU_CACHE=str(tmp_path))
    line, = [line for line in shown.splitlines() if line.startswith("convolution")]
    assert "2 x 6 x 9 x 9, 5 x 6 x 3 x 3" in line
    in_process("from flambeau.cli import main; main(['cache', 'clear'])", FLAMBEAU_CACHE=str(tmp_path))
    assert not list(tmp_path.iterdir())
