"""What torch.multiprocessing has: Python's multiprocessing, and functions run in several processes at once.

Tensors that are sent to another process move into shared memory, and the descriptor of their block travels:
both processes see the same elements from then on.
"""

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
import warnings
from multiprocessing import *  # noqa: F403

from flambeau.tensor.shared import register_pickling

__all__ = [*multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
           "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy",
           "init_reductions", "set_sharing_strategy", "spawn", "start_processes"]

KILL_S = 30.0               # how long a process may take to end after it was asked to
TRACEBACK_BYTES = 60_000    # what a pipe holds without a reader
PR_SET_PDEATHSIG = 1        # of prctl(2): the signal that a process gets when its parent dies

_strategy = "file_descriptor"

register_pickling()


def init_reductions():
    """Make multiprocessing send tensors through shared memory; importing this module did so already."""
    register_pickling()


# ---------------------------------------------------------------------------------- failures
class ProcessException(Exception):
    """A process of `spawn` failed: `error_index` is its number, `error_pid` its process id."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception; the message ends with its traceback."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """The process ended by a signal (`signal_name`) or with an exit code of its own (`exit_code`)."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


# ---------------------------------------------------------------------------------- in the started process
def _run(fn, number, args, report):
    """Call `fn(number, *args)`; an exception's traceback goes to `report`."""
    _end_with_parent()
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass                    # the parent got it too, and says so
    except Exception:
        report.send_bytes(traceback.format_exc().encode()[-TRACEBACK_BYTES:])
        sys.exit(1)


def _end_with_parent():
    """Have the system interrupt this process when its parent dies, where it can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


# ---------------------------------------------------------------------------------- in the starting process
class ProcessContext:
    """The processes that `start_processes` started. processes: of multiprocessing, in order."""

    def __init__(self, processes, reports):
        self.processes, self._reports = processes, reports
        self.sentinels = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self):
        """Their process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Wait until one has ended, `timeout` seconds at most: True if all have ended well, False if some
        still run.

        If one failed, the others are ended (after `grace_period` seconds to end by themselves) and it is
        raised: ProcessRaisedException with the child's traceback, or ProcessExitedException with signal or
            exit code.
        """
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            number = self.sentinels.pop(sentinel)
            self.processes[number].join()
            if self.processes[number].exitcode != 0:
                self._end_others(grace_period)
                self._raise(number)
        if not self.sentinels:
            self._close()
        return not self.sentinels

    def _end_others(self, grace_period):
        until = time.monotonic() + (grace_period or 0)
        for process in self.processes:
            process.join(max(until - time.monotonic(), 0))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        until = time.monotonic() + KILL_S
        for process in self.processes:
            process.join(max(until - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, number):
        process, report = self.processes[number], self._reports[number]
        try:
            text = report.recv_bytes().decode(errors="replace") if report.poll() else None
        except EOFError:
            text = None
        self._close()
        if text is not None:
            raise ProcessRaisedException(f"\n\n-- Process {number} terminated with the following error:\n{text}",
                                         number, process.pid)
        code = process.exitcode
        if code >= 0:
            raise ProcessExitedException(f"process {number} terminated with exit code {code}", number, process.pid,
                                         code)
        name = signal.Signals(-code).name
        raise ProcessExitedException(f"process {number} terminated with signal {name}", number, process.pid, code,
                                     name)

    def _close(self):
        for report in self._reports:
            report.close()


class SpawnContext(ProcessContext):
    """What `spawn` with join=False returns."""


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn", *,
                    kind=ProcessContext):
    """Run `fn(number, *args)` in `nprocs` processes.

    join: wait for all of them (see `ProcessContext.join` for failures); otherwise a ProcessContext is
        returned.
    daemon: they end with this process and cannot start others. start_method: "spawn", "fork" or "forkserver".
    """
    context = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for number in range(nprocs):
        report, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, number, args, theirs), daemon=daemon)
        process.start()
        theirs.close()
        processes.append(process)
        reports.append(report)
    started = kind(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` with fresh interpreters."""
    if start_method != "spawn":
        warnings.warn(f"spawn() starts fresh interpreters; start_method={start_method!r} is passed on as it is: to "
                      "choose, use start_processes()", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method, kind=SpawnContext)


# ---------------------------------------------------------------------------------- sharing
def get_all_sharing_strategies():
    """The names that `set_sharing_strategy` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    """The name last set. Whatever it is, memory is shared by descriptors, which leave no files behind."""
    return _strategy


def set_sharing_strategy(new_strategy):
    """Remember a name; there is one way to share memory."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        known = sorted(get_all_sharing_strategies())
        raise AssertionError(f"no sharing strategy {new_strategy!r}: choose of {known}")
    _strategy = new_strategy
