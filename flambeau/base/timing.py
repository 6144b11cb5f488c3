"""Timing of statements: repeated runs, as numbers and as text with fitting units."""

import statistics
import timeit
from dataclasses import dataclass, field

__all__ = ["Measurement", "Timer"]

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass
class Measurement:
    """Runs of one statement: seconds of blocks of `number_per_run` runs each, in `raw_times`."""

    number_per_run: int
    raw_times: list
    statement: str
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    num_threads: int = 1
    metadata: dict = field(default_factory=dict)

    @property
    def times(self):
        """Seconds a run, of each block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self):
        return statistics.median(self.times)

    @property
    def mean(self):
        return statistics.fmean(self.times)

    @property
    def iqr(self):
        """The range of the middle half of the blocks."""
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    def __str__(self):
        scale, unit = next((u for u in _UNITS if self.median >= u[0]), _UNITS[-1])
        title = ": ".join(part for part in (self.label, self.sub_label, self.description) if part) or self.statement
        lines = [title, f"  {'Median: ' if len(self.raw_times) > 1 else ''}{self.median / scale:.2f} {unit}"]
        if len(self.raw_times) > 1:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        counted = "1 measurement" if len(self.raw_times) == 1 else f"{len(self.raw_times)} measurements"
        return "\n".join([*lines, f"  {counted}, {self.number_per_run} runs a measurement, {self.num_threads} thread"
                          + "s" * (self.num_threads > 1)])

    __repr__ = __str__


class Timer:
    """Times a statement, run in `globals` after `setup`.

    >>> 0 < Timer("sum(values)", globals={"values": range(10)}).timeit(100).median < 1
    True
    """

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timeit.default_timer, globals=None, label=None,
                 sub_label=None, description=None, env=None, num_threads=1, language="python"):
        self.names = dict(globals or {})
        if global_setup:
            exec(global_setup, self.names)      # noqa: S102 - the caller's own statement
        self.timer = timeit.Timer(stmt, setup, timer, self.names)
        self.described = {"statement": stmt, "label": label, "sub_label": sub_label, "description": description,
                          "num_threads": num_threads}

    def timeit(self, number=1000000):
        """A Measurement of one block of `number` runs, after some to warm up."""
        self.timer.timeit(max(number // 100, 2))
        return Measurement(number, [self.timer.timeit(number)], **self.described)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """A Measurement of blocks that take a thousandth of `min_run_time` seconds or more, for that long."""
        number, spent, blocks = 1, 0.0, []
        while self.timer.timeit(number) < min_run_time / 1000:
            number *= 10
        while spent < min_run_time:
            blocks.append(self.timer.timeit(number))
            spent += blocks[-1]
        return Measurement(number, blocks, **self.described)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Longer and longer Measurements until the middle half of the blocks is within `threshold` of the median."""
        while True:
            found = self.blocked_autorange(min_run_time=min_run_time)
            if min_run_time * 3 >= max_run_time or len(found.times) >= 4 and found.iqr <= threshold * found.median:
                return found
            min_run_time *= 3
