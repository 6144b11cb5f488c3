"""Timer, Measurement, Compare, Fuzzer."""

import pickle
import time

import pytest

import flambeau as fl
from flambeau import benchmark
from flambeau.benchmark import (
    Compare,
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    ParameterAlias,
    TaskSpec,
    Timer,
)
from flambeau.measure.fuzzer import BinaryOpFuzzer, UnaryOpFuzzer


def measured(times, number=1, **names):
    return Measurement(number, times, TaskSpec("f(x)", **names))


def ticking(seconds=1e-3):
    """A clock by which each reading is `seconds` later."""
    state = [0.0]

    def clock():
        state[0] += seconds
        return state[0]

    return clock


def test_blocks_and_their_statistics():
    found = measured([2.0, 4.0, 6.0, 8.0, 100.0], number=2)
    assert found.times == [1, 2, 3, 4, 50] and found.median == 3 and found.mean == 12 and found.iqr == 2
    assert found.has_warnings and not found.meets_confidence() and found.significant_figures == 1
    steady = measured([1.0, 1.001, 1.002, 1.001, 1.0] * 4)
    assert not steady.has_warnings and steady.meets_confidence() and steady.significant_figures >= 3


def test_text_has_names_units_and_spread():
    text = str(
        measured(
            [1e-6, 1.1e-6, 1.2e-6, 1.3e-6, 9e-6],
            label="adding",
            sub_label="[3]",
            description="ours",
            num_threads=2,
        )
    )
    assert text.splitlines()[:2] == ["adding: [3]", "ours"]
    assert "Median: 1.20 us" in text and "IQR:    0.20 us (1.10 to 1.30)" in text
    assert "5 measurements, 1 runs per measurement, 2 threads" in text and "16.7% of the median" in text
    assert str(measured([0.5])) == "f(x)\n  500.00 ms\n  1 measurement, 1 runs, 1 thread"
    assert "setup: x = 1" in str(Measurement(1, [1.0], TaskSpec("x", "x = 1")))


@pytest.mark.parametrize(
    "seconds, unit",
    [(2.0, "s"), (1.0, "s"), (0.5, "ms"), (1e-3, "ms"), (1e-5, "us"), (1e-9, "ns"), (1e-12, "ns")],
)
def test_units(seconds, unit):
    assert benchmark.select_unit(seconds)[0] == unit


def test_significant_figures():
    assert [benchmark.trim_sigfig(x, 2) for x in (12345.0, 0.0012345, 0.0, -99.6)] == [12000, 0.0012, 0, -100]
    assert benchmark.unit_to_english("us") == "microsecond"


def test_timer_runs_the_statement_in_its_scope():
    seen = []
    timer = Timer("seen.append(y)", "y = x + 1", globals={"seen": seen, "x": 1})
    found = timer.timeit(10)
    assert set(seen) == {2} and len(seen) == 10 + 2 and found.number_per_run == 10 and found.median > 0
    assert (
        Timer(
            """
        z = y * 2
        assert z == 6
    """,
            """
        y = 3
    """,
        )
        .timeit(1)
        .stmt
        == "z = y * 2\nassert z == 6"
    )
    assert Timer("made", global_setup="made = 1").timeit(1).global_setup == "made = 1"
    assert Timer("torch.ones(1)").timeit(1).median > 0


def test_autoranges_measure_long_enough():
    seen = []
    found = Timer(timer=ticking()).blocked_autorange(
        min_run_time=0.02, callback=lambda *pair: seen.append(pair)
    )
    assert (
        found.number_per_run == 1
        and len(found.times) == 20 == len(seen)
        and found.raw_times[0] == pytest.approx(1e-3)
    )
    found = Timer(timer=ticking()).adaptive_autorange(min_run_time=0.001)
    assert len(found.times) == 4  # enough blocks, all alike
    assert Timer("sum(range(10))").adaptive_autorange(max_run_time=0.05).median < 0.01


def test_what_is_done_once_does_not_make_blocks_short():
    state = []

    def slow_at_first():
        if not state:
            time.sleep(0.01)
        state.append(1)

    assert (
        Timer("f()", globals={"f": slow_at_first}).blocked_autorange(min_run_time=0.1).number_per_run >= 100
    )


def test_threads_while_timing():
    before = fl.get_num_threads()
    seen = []
    Timer("seen.append(fl.get_num_threads())", globals={"fl": fl, "seen": seen}, num_threads=3).timeit(1)
    assert set(seen) == {3} and fl.get_num_threads() == before


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: Timer(language="c++"), NotImplementedError),
        (lambda: Timer(language=benchmark.Language.CPP), NotImplementedError),
        (lambda: Timer(language="ada"), ValueError),
        (lambda: Timer().collect_callgrind(), NotImplementedError),
        (lambda: Timer("not a statement").timeit(1), SyntaxError),
        (lambda: Compare([1]), ValueError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call()


def test_measurements_merge_and_pickle():
    first, second, other = measured([1.0]), measured([4.0], number=2), measured([5.0], label="other")
    merged = Measurement.merge([first, second, other])
    assert [each.times for each in merged] == [[1.0, 2.0], [5.0]]
    again = pickle.loads(pickle.dumps(first))
    assert str(again) == str(first) and again.task_spec == first.task_spec


def grid():
    return [
        measured(
            [1.2e-5 * (row + 1) * (column + 1)] * 5,
            label="products",
            sub_label=f"[{row}]",
            description=f"c{column}",
            num_threads=threads,
        )
        for threads in (1, 4)
        for row in range(2)
        for column in range(2)
    ]


def test_table():
    assert (
        str(Compare(grid()))
        == """\
[--------- products --------]
             |   c0   |   c1
1 threads: ------------------
        [0]  |  12.0  |  24.0
        [1]  |  24.0  |  48.0
4 threads: ------------------
        [0]  |  12.0  |  24.0
        [1]  |  24.0  |  48.0

Times are in microseconds (us)."""
    )


def test_rows_stand_by_their_threads():
    rows = [measured([1e-5], sub_label=name, num_threads=threads) for name in "ab" for threads in (1, 4)]
    assert [line.split()[0] for line in str(Compare(rows)).splitlines()[2:8]] == [
        "1",
        "a",
        "b",
        "4",
        "a",
        "b",
    ]


def test_table_trimmed_coloured_and_with_environments(capsys):
    table = Compare(grid())
    table.trim_significant_figures()
    table.print()
    assert "|  12  |  24" in capsys.readouterr().out
    table.colorize()
    assert "\033[92m\033[1m12\033[0m" in str(table) and "\033[2m\033[91m48\033[0m" in str(table)
    table.colorize(rowwise=True)
    assert str(table).count("\033[92m") == 4
    table.extend_results(
        [measured([1e-5, 2e-5, 3e-5, 4e-5], label="products", sub_label="[0]", description="c2")]
    )
    table.highlight_warnings()
    assert "(! 60%)" in str(table)
    named = Compare([measured([1e-5], env="A", description="x"), measured([1e-5], env="B", description="y")])
    assert "(A)  f(x)" in str(named) and len(str(named).splitlines()) == 7


def test_fuzzer_draws_within_bounds_and_again_by_its_seed():
    def make():
        return Fuzzer(
            [
                FuzzedParameter("n", 2, 40, "loguniform"),
                FuzzedParameter("m", 1, 9, "uniform"),
                FuzzedParameter("k", distribution={ParameterAlias("n"): 0.5, 1: 0.5}),
                FuzzedParameter("step", distribution={1: 0.5, 2: 0.5}),
            ],
            [
                FuzzedTensor("x", ("n", "m"), ("step", 1), min_elements=20, max_elements=200),
                FuzzedTensor("y", ("k", 3), probability_contiguous=0, dtype=fl.int64),
            ],
            constraints=[lambda n, m, **rest: n != m],
            seed=3,
        )

    first, second = (
        [(tensors["x"].shape, about, values) for tensors, about, values in make().take(20)] for _ in "ab"
    )
    assert [shape for shape, _, _ in first] == [shape for shape, _, _ in second]
    for shape, about, values in first:
        assert (
            tuple(shape) == (values["n"], values["m"]) == about["x"]["shape"]
            and 20 <= shape[0] * shape[1] <= 200
        )
        assert (
            values["n"] != values["m"]
            and values["k"] in (1, values["n"])
            and about["y"]["dtype"] == str(fl.int64)
        )
        assert about["x"]["steps"][0] == values["step"]
    assert {about["x"]["is_contiguous"] for _, about, _ in first} == {True, False}
    fuzzer = make()
    list(fuzzer.take(20))
    assert 0 < fuzzer.rejection_rate < 1


def test_fuzzers_of_ops():
    for tensors, _, values in BinaryOpFuzzer(seed=0).take(3):
        assert (
            tensors["x"].ndim == values["dim"] and (tensors["x"] + tensors["y"]).shape == tensors["x"].shape
        )
    for tensors, about, _ in UnaryOpFuzzer(seed=0).take(3):
        assert about["x"]["numel"] == tensors["x"].numel() >= 4096


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: FuzzedParameter("n", distribution="normal"), "unknown distribution"),
        (lambda: FuzzedParameter("n", distribution="uniform"), "minval"),
        (lambda: FuzzedParameter("n", 1, 2), "missing"),
        (lambda: Fuzzer([FuzzedParameter("n", 1, 2, "uniform")] * 2, []), "given twice"),
        (
            lambda: next(Fuzzer([FuzzedParameter("n", 1, 2, "uniform")], [], [lambda n: False]).take(1)),
            "out of bounds",
        ),
        (lambda: FuzzedTensor("x", (1,), cuda=True), "CUDA"),
    ],
)
def test_fuzzer_refusals(make, message):
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        make()
