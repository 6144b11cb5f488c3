"""Streams and events where work is done when a call returns: there is nothing to wait for, and a time is a
clock's.
"""

import time


class Stream:
    """An order of work on a device. On the CPU every operation is complete when it returns, so all of this is
    done already.
    """

    def __init__(self, device=None, priority=0, **options):
        self.device, self.priority, self.stream_id, self.device_index = device, priority, 0, -1

    def query(self):
        """True: all work is complete."""
        return True

    def synchronize(self):
        """Does nothing: all work is complete."""

    def wait_event(self, event):
        """Does nothing: all work is complete."""

    def wait_stream(self, stream):
        """Does nothing: all work is complete."""

    def record_event(self, event=None):
        """Record `event`, or a new one, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Event:
    """A moment: `record()` reads the clock, `elapsed_time(other)` is in milliseconds.

    >>> start, end = Event(enable_timing=True), Event(enable_timing=True)
    >>> start.record(); end.record()
    >>> start.elapsed_time(end) >= 0
    True
    """

    def __init__(self, device=None, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.device, self.enable_timing, self.moment = device, enable_timing, None

    def record(self, stream=None):
        """Note the time."""
        self.moment = time.perf_counter()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to `end_event`; both must have been recorded."""
        if self.moment is None or end_event.moment is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event.moment - self.moment) * 1e3

    def query(self):
        """True: all work is complete."""
        return True

    def wait(self, stream=None):
        """Does nothing: all work is complete."""

    def synchronize(self):
        """Does nothing: all work is complete."""


class StreamContext:
    """A block whose work goes to `stream` (None: to the current one)."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return False


def stream(stream):
    """A block whose work goes to `stream`; with one order of work, no difference."""
    return StreamContext(stream)


_CURRENT = Stream()


def current_stream(device=None):
    """The one stream."""
    return _CURRENT
