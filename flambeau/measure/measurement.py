"""What a timing gave: times of a statement, their middle and spread, as numbers and as text with fitting
units."""

import math
import statistics
from dataclasses import dataclass, field, replace

__all__ = ["Measurement", "TaskSpec", "select_unit", "trim_sigfig", "unit_to_english"]

_UNITS = {
    "ns": ("nanosecond", 1e-9),
    "us": ("microsecond", 1e-6),
    "ms": ("millisecond", 1e-3),
    "s": ("second", 1.0),
}
_UNCERTAIN, _DOUBTFUL = 0.1, 0.25  # spread against the median
_FEW = 4  # blocks that say something about the spread


def select_unit(t):
    """(unit, its seconds) that shows `t` seconds well.

    >>> select_unit(2.5e-5)
    ('us', 1e-06)
    """
    fitting = [(unit, scale) for unit, (_, scale) in _UNITS.items() if t >= scale * (1 - 1e-9)]
    return fitting[-1] if fitting else ("ns", 1e-9)


def unit_to_english(u):
    """The unit in words: "us" -> "microsecond"."""
    return _UNITS[u][0]


def trim_sigfig(x, n):
    """`x` rounded to `n` significant figures.

    >>> trim_sigfig(12345.678, 3)
    12300.0
    """
    if x == 0 or not math.isfinite(x):
        return float(x)
    return float(round(x, n - 1 - math.floor(math.log10(abs(x)))))


@dataclass(frozen=True)
class TaskSpec:
    """What was timed, and what it is called in tables."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self):
        """The label and the sub-label, else the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        indented = "\n".join("  " + line for line in self.stmt.splitlines())
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{indented}"

    def setup_str(self):
        """The set-up as it is shown; empty if there is none."""
        if self.setup in ("pass", "") and not self.global_setup:
            return ""
        if "\n" not in self.setup:
            return f"setup: {self.setup}"
        return "setup:\n" + "\n".join("  " + line for line in self.setup.splitlines())


@dataclass(eq=False)
class Measurement:
    """Times of one statement: seconds of blocks of `number_per_run` runs each, in `raw_times`.

    It has the fields of its `task_spec` (`stmt`, `label`, `num_threads`, ...) as attributes.
    """

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: dict | None = field(default=None)

    def __getattr__(self, name):
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self):
        """Seconds a run, of each block."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self):
        """Seconds a run in the middle block."""
        return statistics.median(self.times)

    @property
    def mean(self):
        """Seconds a run on the average."""
        return statistics.fmean(self.times)

    @property
    def _quarters(self):
        times = self.times
        if len(times) < 2:
            return times[0], times[0]
        first, _, third = statistics.quantiles(times, n=4, method="inclusive")
        return first, third

    @property
    def iqr(self):
        """The range of the middle half of the blocks, in seconds."""
        first, third = self._quarters
        return third - first

    @property
    def significant_figures(self):
        """How many figures of the median mean something, from 1 to 5: from the 90 % interval of the middle
        half."""
        times = sorted(self.times)
        middle = times[len(times) // 4 : max(len(times) // 4 + 1, math.ceil(3 * len(times) / 4))]
        interval = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)), self.median * 1e-9)
        if len(times) < 2 or interval <= 0:
            return 1
        return int(min(max(math.floor(-math.log10(interval / self.median)), 1), 5))

    def meets_confidence(self, threshold=_UNCERTAIN):
        """True if the middle half of enough blocks lies within `threshold` of the median."""
        return len(self.times) >= _FEW and self.iqr / self.median < threshold

    @property
    def has_warnings(self):
        """True if the spread is wide."""
        return len(self.times) >= 2 and self.iqr / self.median >= _UNCERTAIN

    @property
    def as_row_name(self):
        """What the row is called in a table."""
        return self.sub_label or self.stmt or "[Unknown]"

    def to_dict(self):
        """The numbers and names as a plain dict."""
        return {
            "times": self.times,
            "median": self.median,
            "iqr": self.iqr,
            "number_per_run": self.number_per_run,
            "raw_times": self.raw_times,
            **self.task_spec.__dict__,
        }

    def __str__(self):
        unit, scale = select_unit(self.median)
        spec, count = self.task_spec, len(self.raw_times)
        lines = [part for part in (spec.title, spec.description, spec.setup_str()) if part]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count >= _FEW:
            first, third = self._quarters
            lines.append(
                f"  IQR:    {self.iqr / scale:.2f} {unit} ({first / scale:.2f} to {third / scale:.2f})"
            )
        blocks = "1 measurement, " if count == 1 else f"{count} measurements, "
        runs = f"{self.number_per_run} runs" + (" per measurement" if count > 1 else "")
        lines.append(f"  {blocks}{runs}, {spec.num_threads} thread" + "s" * (spec.num_threads > 1))
        spread = self.iqr / self.median
        if self.has_warnings:
            cause = (
                "This suggests that something else took time."
                if spread >= _DOUBTFUL
                else "Something else may have taken time."
            )
            lines += [
                f"  WARNING: the interquartile range is {spread:.1%} of the median.",
                f"           {cause}",
            ]
        return "\n".join(lines)

    __repr__ = __str__

    @staticmethod
    def merge(measurements):
        """One Measurement for each task, of all the blocks of those that measured it."""
        groups = {}
        for each in measurements:
            groups.setdefault(each.task_spec, []).append(each)
        merged = []
        for spec, parts in groups.items():
            number = parts[0].number_per_run
            times = [seconds * number / part.number_per_run for part in parts for seconds in part.raw_times]
            merged.append(replace(parts[0], number_per_run=number, raw_times=times, task_spec=spec))
        return merged
