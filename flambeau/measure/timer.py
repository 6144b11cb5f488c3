"""Timing of statements: repeated runs in blocks long enough for the clock."""

import enum
import textwrap
import timeit

from flambeau.base.errors import fail
from flambeau.measure.measurement import Measurement, TaskSpec
from flambeau.runtime import _core

__all__ = ["Language", "Timer", "timer"]

timer = timeit.default_timer


class Language(enum.Enum):
    """What a statement is written in. C++ is not taken."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Times a statement, run in `globals` after `setup`.

    Args:
        stmt: what is timed; also several lines.
        setup: what runs once before each block of runs, in the same scope.
        global_setup: what runs once, here.
        timer: a function that returns seconds.
        globals: names that the statement may use, besides `torch`.
        label, sub_label, description, env: what it is called in tables: the table, the row, the column, and
            the environment.
        num_threads: how many threads kernels may use meanwhile.

    >>> measured = Timer("sum(values)", globals={"values": range(10)}).timeit(100)
    >>> 0 < measured.median < 1, measured.number_per_run
    (True, 100)
    """

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language=Language.PYTHON,
    ):
        if language not in (Language.PYTHON, "py", "python"):
            if language in (Language.CPP, "cpp", "c++"):
                raise NotImplementedError(
                    "[Timer] statements in C++ are not taken: there is no compiler of C++ here\n"
                    "  hint: time the Python call"
                )
            raise ValueError(f"[Timer] Invalid language `{language}`: 'python' is taken")
        self._globals = dict(globals or {})
        self._globals.setdefault("torch", _namespace())
        stmt, setup = _dedented(stmt), _dedented(setup)
        if global_setup:
            exec(_dedented(global_setup), self._globals)  # noqa: S102 - the caller's own statement
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = self._timer_cls(stmt, setup, timer, self._globals)

    def _blocks(self, number):
        """Seconds of one block after another."""
        while True:
            yield max(self._timer.timeit(number), 1e-9)

    def _measurement(self, number, blocks):
        return Measurement(number, blocks, self._task_spec)

    def timeit(self, number=1000000):
        """A Measurement of one block of `number` runs, after some to warm up."""
        if number < 1:
            fail("Timer.timeit", "a statement runs at least once", f"number={number}", kind=ValueError)
        with _threads(self._task_spec.num_threads):
            self._timer.timeit(max(number // 100, 2))
            return self._measurement(number, [next(self._blocks(number))])

    def _runs_a_block(self, min_run_time):
        """How many runs take a thousandth of `min_run_time`: calls of the clock then weigh little."""
        self._timer.timeit(2)  # what is done once, like making a kernel, is not timed
        number = 1
        while self._timer.timeit(number) < min_run_time / 1000 and number < 10**9:
            number *= 10
        return number

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """A Measurement of blocks of runs, until they have taken `min_run_time` seconds.

        Args:
            callback: called with (runs a block, seconds) after each block.
        """
        with _threads(self._task_spec.num_threads):
            number, spent, blocks = self._runs_a_block(min_run_time), 0.0, []
            for seconds in self._blocks(number):
                blocks.append(seconds)
                spent += seconds
                if callback is not None:
                    callback(number, seconds)
                if spent >= min_run_time:
                    return self._measurement(number, blocks)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """A Measurement of blocks of runs, until the middle half of them lies within `threshold` of the
        median.

        It takes at least `min_run_time` and about `max_run_time` seconds at most.
        """
        with _threads(self._task_spec.num_threads):
            number, spent, blocks = self._runs_a_block(max(min_run_time, 0.01)), 0.0, []
            for seconds in self._blocks(number):
                blocks.append(seconds)
                spent += seconds
                if callback is not None:
                    callback(number, seconds)
                measured = self._measurement(number, blocks)
                if spent >= max_run_time or spent >= min_run_time and measured.meets_confidence(threshold):
                    return measured

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        """Refused: instructions are not counted here."""
        raise NotImplementedError(
            "[Timer] instructions are not counted: that takes Valgrind and symbols of C++\n"
            "  hint: blocked_autorange measures time"
        )


def _dedented(text):
    return textwrap.dedent(text).strip() if isinstance(text, str) else text


def _namespace():
    """What statements may call `torch`: the facade where it is served, else flambeau itself."""
    import sys

    return sys.modules.get("torch") or sys.modules["flambeau"]


class _threads:  # noqa: N801 - a context
    """Meanwhile, kernels use so many threads."""

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self.before = _core.get_num_threads()
        _core.set_num_threads(self.number)

    def __exit__(self, *error):
        _core.set_num_threads(self.before)
