"""Tables of events: a row an event or a sum of them, columns of time, memory and calls."""

__all__ = ["build", "bytes_text", "time_text"]

_TIMES = {"us": 1.0, "ms": 1e3, "s": 1e6}
_SORTABLE = (
    "cpu_time",
    "cpu_time_total",
    "self_cpu_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "count",
    "flops",
)
_DEVICES = ("cuda", "device", "xpu", "mps", "privateuse1")


def time_text(microseconds, unit=None):
    """Microseconds in a unit that fits.

    >>> time_text(1234.5)
    '1.234ms'
    """
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / _TIMES[unit]:.3f}{unit}"


def bytes_text(count):
    """Bytes in a unit that fits: 1536 -> "1.50 KB"."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def flops_text(count, scale):
    return f"{count / scale:.3f}" if count else "--"


def _share(part, whole):
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


def _cut(text, width):
    return text if width is None or len(text) <= width else text[: width - 3] + "..."


def sort_key(sort_by):
    """The attribute that `sort_by` names."""
    name = sort_by
    for device in _DEVICES:
        name = name.replace(device, "device")
    if name.replace("device", "cpu") not in _SORTABLE:
        # PyTorch finds no such attribute
        raise AttributeError(f"[table] sort_by is one of {', '.join(_SORTABLE)}: got {sort_by!r}")
    return name


def build(events, sort_by, row_limit, widths, header, top_only, unit):
    """The text of EventList.table."""
    if not events:
        return ""
    rows = list(events)
    if sort_by is not None:
        name = sort_key(sort_by)
        rows.sort(key=lambda event: -getattr(event, name))
    if top_only:
        rows = [event for event in rows if event.cpu_parent is None]
    rows = rows[:row_limit] if row_limit >= 0 else rows
    total = events.self_cpu_time_total
    columns = _columns(events, rows, total, widths, unit)
    sizes = [
        max(len(title), *(len(text) for text in texts)) if texts else len(title) for title, texts in columns
    ]
    left = {"Source Location"}
    line = "  ".join("-" * size for size in sizes)
    lines = [line, "  ".join(title.rjust(size) for (title, _), size in zip(columns, sizes)), line]
    if header is not None:
        lines[:0] = ["=" * len(line), header]
    for number in range(len(rows)):
        lines.append(
            "  ".join(
                texts[number].ljust(size) if title in left else texts[number].rjust(size)
                for (title, texts), size in zip(columns, sizes)
            )
        )
        if events.stacked:
            lines += _further_lines(rows[number], columns, sizes, widths["source"])
    return "\n".join([*lines, line, f"Self CPU time total: {time_text(total, unit)}", ""])


def _columns(events, rows, total, widths, unit):
    """[(title, texts)]."""
    columns = [
        ("Name", [_cut(event.key, widths["name"]) for event in rows]),
        ("Self CPU %", [_share(event.self_cpu_time_total, total) for event in rows]),
        ("Self CPU", [time_text(event.self_cpu_time_total, unit) for event in rows]),
        ("CPU total %", [_share(event.cpu_time_total, total) for event in rows]),
        ("CPU total", [time_text(event.cpu_time_total, unit) for event in rows]),
        ("CPU time avg", [time_text(event.cpu_time, unit) for event in rows]),
    ]
    if events.profile_memory:
        columns += [
            ("CPU Mem", [bytes_text(event.cpu_memory_usage) for event in rows]),
            ("Self CPU Mem", [bytes_text(event.self_cpu_memory_usage) for event in rows]),
        ]
    columns.append(("# of Calls", [str(event.count) for event in rows]))
    if events.shaped:
        columns.append(("Input Shapes", [_cut(str(event.input_shapes), widths["shapes"]) for event in rows]))
    if events.stacked:
        columns.append(
            (
                "Source Location",
                [_cut(event.stack[0], widths["source"]) if event.stack else "" for event in rows],
            )
        )
    if events.with_flops and any(event.flops for event in rows):
        largest = max(event.flops for event in rows)
        unit_name, scale = next(
            (pair for pair in (("GFLOPs", 1e9), ("MFLOPs", 1e6), ("KFLOPs", 1e3)) if largest >= pair[1]),
            ("FLOPs", 1),
        )
        columns.append((f"Total {unit_name}", [flops_text(event.flops, scale) for event in rows]))
    return columns


def _further_lines(event, columns, sizes, width):
    """The calling lines below the first."""
    place = [title for title, _ in columns].index("Source Location")
    indent = sum(sizes[:place]) + 2 * place
    return [" " * indent + _cut(line, width) for line in event.stack[1:]]
