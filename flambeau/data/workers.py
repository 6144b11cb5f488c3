"""Worker processes of a DataLoader: each fetches and collates batches; the caller receives them in order.

Every worker has a line of its own (see `transport.py`). The caller waits on the lines, so a worker that dies
is noticed at once, whatever it was doing; a worker whose caller dies leaves.
"""

import os
import pickle
import random
import select
import signal
import sys
import time
import traceback
import weakref
from dataclasses import dataclass

from flambeau.base.errors import fail

JOIN_S = 2.0        # how long workers may take to leave before they are ended
CHECK_S = 0.5       # how often life is checked where the end of a line might not be seen
_info = None        # in a worker: its WorkerInfo
_lines = weakref.WeakSet()      # the callers' ends of all lines in this process


@dataclass
class WorkerInfo:
    """What `get_worker_info()` returns in a worker: its number, how many there are, its seed, its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: object


def get_worker_info():
    """The WorkerInfo of this worker process; None in the main process."""
    return _info


@dataclass(frozen=True)
class Job:
    """What a worker is given at its start.

    fetcher: a Fetcher. init(number): the user's worker_init_fn. count: of workers. seed: of the first.
    stream: the stream of random numbers that this process draws from.
    """

    fetcher: object
    init: object
    count: int
    seed: int
    stream: str


class Failure:
    """An exception on its way from a worker: raised again in the caller with the worker's traceback."""

    def __init__(self, error, worker):
        self.text = f"Caught {type(error).__name__} in DataLoader worker process {worker}.\n" \
                    f"Original {traceback.format_exc()}"
        try:
            self.kind = pickle.loads(pickle.dumps(type(error)))
        except Exception:
            self.kind = RuntimeError

    def raise_again(self):
        raise self.exception() from None

    def exception(self):
        if self.kind is KeyError:
            return KeyError(_Verbatim(self.text))
        try:
            return self.kind(self.text)
        except Exception:               # an exception with another signature
            return RuntimeError(self.text)


class _Verbatim(str):
    """A KeyError's message with its line breaks."""

    def __repr__(self):
        return str(self)


class EndOfStream:
    """In place of a batch: this worker's stream is through."""


# ---------------------------------------------------------------------------------- in the worker
def work(job, pipe, number):
    """The life of a worker.

    It gets None (leave), (epoch, Position) or (epoch, task, index), and answers the last with
    (epoch, task, batch or Failure or EndOfStream, state of the dataset).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # Ctrl-C is the caller's to handle
    for line in list(_lines):       # a forked worker has them all; they shall end with the caller
        line.close()
    from flambeau.data import tensors, transport
    channel = transport.Channel(pipe)
    tensors.batch_memory = channel.slots if channel.in_memory else None
    problem = None
    try:
        _prepare(job, number)
    except Exception as error:
        problem = Failure(error, number)
    try:
        for message in messages(channel):
            if len(message) == 2:
                problem = problem or _attempt(job.fetcher.begin, message[1], number)
            else:
                _answer(channel, job.fetcher, message, problem, number)
    except (EOFError, OSError):
        pass                                            # the caller is gone


def messages(channel):
    """Yield what arrives, until the caller says so or is gone."""
    parent = os.getppid()
    line = select.poll()
    line.register(channel.fileno(), select.POLLIN)
    while True:
        if not line.poll(CHECK_S * 4000):
            if os.getppid() != parent:
                return
            continue
        message = channel.receive()
        if message is None:
            return
        yield message
        del message


def _attempt(function, argument, number):
    """Call a function; the Failure if it raises, else None."""
    try:
        function(argument)
    except Exception as error:
        return Failure(error, number)
    return None


def _answer(channel, fetcher, message, problem, number):
    epoch, task, index = message
    state = None
    try:
        result = problem or fetcher.fetch(index)
        state = fetcher.state()
    except StopIteration as error:
        result = Failure(error, number) if fetcher.stream is None else EndOfStream()
        state = fetcher.state(through=True)
    except Exception as error:
        result = Failure(error, number)
    try:
        channel.send((epoch, task, result, state))
    except (BrokenPipeError, ConnectionError):
        raise
    except Exception as error:
        channel.send((epoch, task, Failure(error, number), None))


def _prepare(job, number):
    from flambeau.runtime._core import set_num_threads
    set_num_threads(1)
    _seed(number, job)
    if job.init is not None:
        job.init(number)


def _seed(number, job):
    """Every worker draws its own numbers."""
    global _info
    from flambeau.tensor.rng import manual_seed, set_stream
    set_stream(job.stream)
    seed = job.seed + number
    random.seed(seed)
    manual_seed(seed)
    SeedNumpy(number, job.seed)
    _info = WorkerInfo(number, job.count, seed, job.fetcher.dataset)


class SeedNumpy:
    """Seeds NumPy's global generator, from the seed and the number of the worker by NumPy's own mixing.

    Where NumPy is not imported yet, that is done at its import: as a finder of `sys.meta_path`.
    """

    def __init__(self, number, seed):
        self.words = [number, seed & 0xFFFFFFFF, seed >> 32, 0]
        module = sys.modules.get("numpy.random")
        if module is None:
            sys.meta_path.insert(0, self)
        else:
            self.seed(module)

    def seed(self, module):
        module.seed(module.SeedSequence(self.words).generate_state(4))

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "numpy.random":
            return None
        import importlib.util
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        load = spec.loader.exec_module

        def load_and_seed(module):
            load(module)
            self.seed(module)
        spec.loader.exec_module = load_and_seed
        return spec


# ---------------------------------------------------------------------------------- in the caller
class Gone(Exception):
    """The worker `number` is dead."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Crew:
    """The workers of one loader and the lines to them."""

    def __init__(self, job, context):
        from flambeau.data import transport
        from flambeau.tensor import shared
        import multiprocessing
        self.owner, self.channels, self.processes = os.getpid(), [], []
        self.context = context if hasattr(context, "Process") else multiprocessing.get_context(context)
        if self.context.get_start_method() != "fork":
            shared.register_pickling()          # the tensors of the dataset travel once, not once a worker
        self.lines = select.poll()
        self.by_descriptor = {}
        try:
            for number in range(job.count):
                self.start(transport, job, number)
        except BaseException:
            self.close()
            raise

    def start(self, transport, job, number):
        mine, theirs = self.context.Pipe()
        _lines.add(mine)
        self.channels.append(transport.Channel(mine))
        try:
            process = self.context.Process(target=work, args=(job, theirs, number), daemon=True)
            process.start()
            self.processes.append(process)
        finally:
            theirs.close()
        self.lines.register(mine.fileno(), select.POLLIN)
        self.by_descriptor[mine.fileno()] = number

    def send(self, number, message):
        """Send to one worker; False if it is dead."""
        try:
            self.channels[number].send(message)
        except (BrokenPipeError, ConnectionError):
            return False
        return True

    def ready(self, timeout):
        """The numbers of workers that have said something; none after `timeout` seconds (0: never). Gone if one died."""
        until = time.monotonic() + timeout if timeout else None
        while True:
            wait = CHECK_S if until is None else max(min(CHECK_S, until - time.monotonic()), 0)
            found = self.lines.poll(wait * 1000)
            if not found:           # a process that another thread started may hold the end of a dead worker's line
                dead = [number for number, process in enumerate(self.processes) if not process.is_alive()]
                found = self.lines.poll(0)
                if dead and not found:
                    raise Gone(dead[0])
            if found or until is not None and time.monotonic() >= until:
                return [self.by_descriptor[descriptor] for descriptor, _ in found]

    def receive(self, number):
        """The next message of a worker; Gone if it is dead."""
        try:
            return self.channels[number].receive()
        except (EOFError, OSError) as error:
            raise Gone(number) from error

    def lost(self, number, index):
        """A worker died at its work on `index`: say which and how, and take the others down."""
        process = self.processes[number]
        process.join(JOIN_S)
        pid, code = process.pid, process.exitcode
        if code is not None and code < 0:
            how = f"is killed by signal: {signal.Signals(-code).name}"
        else:
            how = f"exited unexpectedly with exit code {code}"
        self.close(at_once=True)
        fail("DataLoader", f"worker (pid {pid}) {how}, at its work on {_brief(index)}",
             hint="pass num_workers=0 to see the error in this process; a kill can mean that memory ran out")

    def close(self, at_once=False):
        """End all workers and release their lines. at_once: do not wait for what they are doing."""
        if os.getpid() != self.owner:
            return                              # a forked child, whose parent still needs them
        channels, processes, self.channels, self.processes = self.channels, self.processes, [], []
        for channel in channels:
            try:
                channel.send(None)
            except (OSError, ValueError):
                pass
            channel.close()
        until = time.monotonic() + (0 if at_once else JOIN_S)
        for process in processes:
            process.join(max(until - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()

    def __del__(self):
        if getattr(self, "processes", None):
            self.close()


def _brief(index):
    what = "the samples" if isinstance(index, list) else "sample"
    text = "a batch" if index is None else f"{what} {index}"
    return text if len(text) < 120 else text[:117] + "..."


def default_context():
    """fork where there is one (nothing needs to be picklable), else spawn."""
    import multiprocessing
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or ("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
