"""Traces as files: the JSON that chrome://tracing, Perfetto and TensorBoard's profiler read."""

import gzip
import json
import os
import socket

__all__ = ["write_trace"]


def write_trace(path, events, metadata=None):
    """Write `events` (an EventList) to `path`, packed if it ends in .gz."""
    process = os.getpid()
    threads = sorted({event.thread for event in events})
    found = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": process, "tid": 0, "ts": 0, "args": {"labels": "CPU"}},
    ]
    found += [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": process,
            "tid": thread,
            "ts": 0,
            "args": {"name": f"thread {thread} (python)"},
        }
        for thread in threads
    ]
    kinds = {"op": "cpu_op", "backward": "cpu_op", "user": "user_annotation"}
    for event in events:
        details = {"External id": event.id}
        if event.input_shapes:
            details["Input Dims"] = event.input_shapes
        if event.stack:
            details["Call stack"] = ";".join(reversed(event.stack))
        if event.cpu_memory_usage:
            details["Bytes"] = event.cpu_memory_usage
        found.append(
            {
                "ph": "X",
                "cat": kinds[event.kind],
                "name": event.name,
                "pid": process,
                "tid": event.thread,
                "ts": round(event.time_range.start, 3),
                "dur": round(event.time_range.elapsed_us(), 3),
                "args": details,
            }
        )
    whole = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        **(metadata or {}),
        "traceEvents": found,
        "traceName": os.fspath(path),
    }
    opened = gzip.open if os.fspath(path).endswith(".gz") else open
    with opened(path, "wt") as file:
        json.dump(whole, file)
