"""Event files: written now and then, never by two processes, and read again."""

import itertools
import os
import socket
import threading
import time
import weakref
from pathlib import Path

from flambeau.track.messages import decode, encode
from flambeau.track.records import read_records, record

__all__ = ["EventFile", "read_events", "read_scalars"]

_numbers = itertools.count()


class EventFile:
    """An event file of its own name in `folder`; events wait in memory for company.

    They are written when more than `max_queue` wait, `flush_secs` seconds after the first of them, by
    `flush` and `close`, and when the program ends. A forked child gets a file of its own: what waits is the
    parent's.
    """

    def __init__(self, folder, max_queue=10, flush_secs=120, suffix=""):
        self.folder, self.max_queue, self.flush_secs, self.suffix = (
            str(folder),
            max_queue,
            flush_secs,
            suffix or "",
        )
        os.makedirs(self.folder, exist_ok=True)
        self._lock = threading.Lock()
        self._open()

    def _open(self):
        self.process = os.getpid()
        name = (
            f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{self.process}.{next(_numbers)}"
        )
        self.path = os.path.join(self.folder, name + self.suffix)
        self._waiting, self._timer = [], None
        self._at_exit = weakref.finalize(self, _append, self.path, self._waiting, self.process, self._lock)
        self.add(
            {
                "wall_time": time.time(),
                "file_version": "brain.Event:2",
                "source_metadata": {"writer": "flambeau.track"},
            }
        )
        self.flush()

    def add(self, event):
        """Queue one event, a dict of the fields of `Event`."""
        if os.getpid() != self.process:
            self._at_exit.detach()
            self._lock = threading.Lock()
            self._open()
        data = record(encode("Event", event))
        with self._lock:
            self._waiting.append(data)
            full = len(self._waiting) > self.max_queue
            if not full and self._timer is None:
                self._timer = _later(self.flush_secs, weakref.WeakMethod(self.flush))
        if full:
            self.flush()

    def flush(self):
        """Write what waits."""
        if os.getpid() != self.process:  # a child: what waits is the parent's, and so may the lock be
            return
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        _append(self.path, self._waiting, self.process, self._lock)

    def close(self):
        """Write what waits; a later event opens nothing new, it is appended."""
        self.flush()


def _append(path, waiting, process, lock):
    if os.getpid() != process:
        return
    with lock:
        if waiting and os.path.isdir(os.path.dirname(path)):  # else the run was deleted meanwhile: so be it
            with open(path, "ab") as file:
                file.write(b"".join(waiting))
        waiting.clear()


def _later(seconds, method):
    """A started timer that does not keep the file, nor the program, alive."""

    def run():
        flush = method()
        if flush is not None:
            flush()

    timer = threading.Timer(seconds, run)
    timer.daemon = True
    timer.start()
    return timer


def read_events(path):
    """The events of a file, or of all event files under a folder, as dicts."""
    path = Path(path)
    for file in sorted(path.rglob("events.out.tfevents.*")) if path.is_dir() else [path]:
        for data in read_records(file):
            yield decode("Event", data)


def read_scalars(path):
    """The scalars of a file or folder: {tag: [(step, value), ...]}."""
    found = {}
    for event in read_events(path):
        for value in event.get("summary", {}).get("value", ()):
            if "simple_value" in value:
                found.setdefault(value["tag"], []).append((event.get("step", 0), value["simple_value"]))
    return found
