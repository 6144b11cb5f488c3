"""What a profile found: spans of time, one inside another, and sums of those that are alike."""

from flambeau.measure import table as tables

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

_ZERO = frozenset(
    f"{part}{device}_{what}"
    for part in ("", "self_")
    for device in ("cuda", "device", "xpu", "mps")
    for what in ("time", "time_total", "memory_usage")
)


class Interval:
    """From `start` to `end`, in microseconds since the profile began."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        """Its length."""
        return self.end - self.start


class _Timed:
    """What single events and sums have in common. Times are microseconds; those of devices are 0: there is
    none."""

    def __getattr__(self, name):
        if name in _ZERO:
            return 0
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def cpu_time(self):
        """Microseconds a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self):
        return tables.time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self):
        return tables.time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self):
        return tables.time_text(self.self_cpu_time_total)


class FunctionEvent(_Timed):
    """One span: an op, a node of a backward pass, or a block that the program named.

    It has `name`, `time_range`, `thread`, `cpu_parent` and `cpu_children`, and as far as they were asked for
    `input_shapes`, `stack` (lines of the program, innermost first), `cpu_memory_usage` (bytes) and `flops`.
    """

    count = 1
    is_async = is_remote = is_legacy = False
    node_id = -1
    device_type = "cpu"

    def __init__(self, span, number, origin):
        self.id, self.name, self.key, self.kind = number, span.name, span.name, span.kind
        self.time_range = Interval((span.start - origin) / 1000, (span.end - origin) / 1000)
        self.thread, self.input_shapes, self.stack = span.thread, span.shapes or [], span.stack or []
        self.cpu_memory_usage, self.flops = span.memory, span.flops
        self.cpu_parent, self.cpu_children, self.kernels = None, [], []
        self.is_user_annotation = span.kind == "user"

    @property
    def trace_name(self):
        return self.name

    @property
    def cpu_time_total(self):
        """Its length."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self):
        """Its length without the spans inside it."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self):
        """Bytes, without those of the spans inside it."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Timed):
    """A sum of events that are alike; `cpu_time` is their average."""

    def __init__(self):
        self.key, self.count, self.cpu_time_total, self.self_cpu_time_total = None, 0, 0.0, 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = 0
        self.input_shapes, self.stack, self.cpu_parent, self.cpu_children = None, [], None, []
        self.is_user_annotation, self.node_id, self.device_type = False, -1, "cpu"

    def add(self, other):
        """Take in an event, or another sum."""
        if self.key is None:
            self.key, self.input_shapes, self.stack = other.key, other.input_shapes, other.stack
            self.cpu_parent, self.is_user_annotation = other.cpu_parent, other.is_user_annotation
        for name in (
            "count",
            "cpu_time_total",
            "self_cpu_time_total",
            "cpu_memory_usage",
            "self_cpu_memory_usage",
            "flops",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list):
    """A list of events or of sums of them; it prints as a table."""

    def __init__(
        self, events=(), profile_memory=False, with_flops=False, shaped=False, stacked=False, total=None
    ):
        super().__init__(events)
        self.profile_memory, self.with_flops, self.shaped, self.stacked = (
            profile_memory,
            with_flops,
            shaped,
            stacked,
        )
        self._total = total

    @property
    def self_cpu_time_total(self):
        """Microseconds of all together."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        """Sums of events of one name; also of equal shapes of inputs, or of the same `group_by_stack_n`
        calling lines."""
        sums = {}
        for event in self:
            key = (
                event.key,
                str(event.input_shapes) if group_by_input_shapes else "",
                tuple(event.stack[:group_by_stack_n]),
            )
            sums.setdefault(key, FunctionEventAvg()).add(event)
        for each in sums.values():
            each.stack = each.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                each.input_shapes = ""
        return EventList(
            sums.values(), self.profile_memory, self.with_flops, group_by_input_shapes, group_by_stack_n > 0
        )

    def total_average(self):
        """All in one sum."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
        time_unit=None,
    ):
        """The events as a table to print.

        Args:
            sort_by: cpu_time, cpu_time_total, self_cpu_time_total, cpu_memory_usage, self_cpu_memory_usage
                or count, the largest first; the names with "cuda" or "device" are taken too, and are 0.
            row_limit: how many rows; -1: all.
            max_..._column_width: longer texts are cut.
            header: a line above.
            top_level_events_only: leave out events inside others.
            time_unit: "s", "ms" or "us"; None: what fits each number.
        """
        widths = {
            "name": max_name_column_width,
            "shapes": max_shapes_column_width,
            "source": max_src_column_width,
        }
        return tables.build(self, sort_by, row_limit, widths, header, top_level_events_only, time_unit)

    def export_chrome_trace(self, path):
        """Write the events as a file that chrome://tracing and Perfetto show."""
        from flambeau.measure.trace_file import write_trace

        write_trace(path, self)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write a line a stack, with the microseconds spent in it: what flame graphs are drawn from."""
        if metric not in ("self_cpu_time_total", "self_cuda_time_total"):
            raise ValueError(
                f"[export_stacks] metric is 'self_cpu_time_total' or 'self_cuda_time_total': got {metric!r}"
            )
        with open(path, "w") as file:
            for event in self:
                value = int(getattr(event, metric))
                if event.stack and value > 0:
                    file.write(
                        ";".join(line.replace(" ", "_") for line in reversed(event.stack)) + f" {value}\n"
                    )

    def __str__(self):
        return self.table()


def from_spans(spans, options):
    """The EventList of a recorder's spans."""
    origin = spans[0].start if spans else 0
    events = {id(span): FunctionEvent(span, number, origin) for number, span in enumerate(spans, 1)}
    for span in spans:
        if span.parent is not None:
            event, parent = events[id(span)], events[id(span.parent)]
            event.cpu_parent = parent
            parent.cpu_children.append(event)
    return EventList(
        events.values(), options["memory"], options["flops"], options["shapes"], options["stack"]
    )
