"""Worker processes of a DataLoader: each fetches and collates batches; the caller receives them in order.

Every worker has a pipe of its own. The caller waits on the pipes and on the processes themselves, so a worker
that dies is noticed at once, whatever it was doing; a worker whose caller dies reads the end of its pipe and leaves.
"""

import os
import pickle
import random
import signal
import sys
import traceback
from dataclasses import dataclass

from flambeau.base.errors import fail

JOIN_S = 2.0        # how long a worker may take to leave before it is ended
_info = None        # in a worker: its WorkerInfo


@dataclass
class WorkerInfo:
    """What `get_worker_info()` returns in a worker: its number, how many there are, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: object


def get_worker_info():
    """The WorkerInfo of this worker process; None in the main process."""
    return _info


@dataclass(frozen=True)
class Job:
    """What a worker is given at its start. `fetch(dataset, stream, index)` makes one batch."""

    dataset: object
    fetch: object
    is_stream: bool
    init: object
    count: int


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
        if self.kind is KeyError:
            raise KeyError(_Verbatim(self.text))
        try:
            error = self.kind(self.text)
        except TypeError:               # an exception with another signature
            error = RuntimeError(self.text)
        raise error from None


class _Verbatim(str):
    """A KeyError's message with its line breaks."""

    def __repr__(self):
        return str(self)


class EndOfStream:
    """In place of a batch: this worker's stream is through."""


def work(job, pipe, others, number, seed):
    """The life of a worker: (epoch, task, index) in, (epoch, task, batch or Failure or EndOfStream) out."""
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # Ctrl-C is the caller's to handle
    for other in others:
        other.close()
    stream, epoch, problem = None, None, None
    try:
        _prepare(job, number, seed)
    except Exception as error:
        problem = Failure(error, number)
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            break
        if message is None:
            break
        this_epoch, task, index, epoch_seed = message
        if epoch != this_epoch:
            if epoch is not None:
                _seed(number, epoch_seed, job)
            epoch, stream = this_epoch, None
        try:
            if problem is None and job.is_stream and stream is None:
                stream = iter(job.dataset)
            result = problem or job.fetch(job.dataset, stream, index)
        except StopIteration:
            result = EndOfStream()
        except Exception as error:
            result = Failure(error, number)
        try:
            _send(pipe, (epoch, task, result), number)
        except (BrokenPipeError, OSError):
            break


def _send(pipe, message, number):
    try:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        data = pickle.dumps((*message[:2], Failure(error, number)), pickle.HIGHEST_PROTOCOL)
    pipe.send_bytes(data)


def _prepare(job, number, seed):
    from flambeau.runtime._core import set_num_threads
    set_num_threads(1)
    _seed(number, seed, job)
    if job.init is not None:
        job.init(number)


def _seed(number, seed, job):
    """Every worker draws its own numbers, another for each epoch."""
    global _info
    from flambeau.tensor.rng import manual_seed
    manual_seed(seed + number)
    random.seed(seed + number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed((seed + number) % (1 << 32))
    _info = WorkerInfo(number, job.count, seed + number, job.dataset)


class Crew:
    """The workers of one loader, and what they have been asked for."""

    def __init__(self, job, count, seed, context, ahead, timeout):
        import multiprocessing
        self.count, self.ahead, self.timeout, self.owner = count, ahead, timeout, os.getpid()
        self.context = multiprocessing.get_context(context) if not hasattr(context, "Process") else context
        self.pipes, self.processes, self.epoch = [], [], 0
        for number in range(count):
            mine, theirs = self.context.Pipe()
            forked = self.context.get_start_method() == "fork"
            others = [*self.pipes, mine] if forked else []
            process = self.context.Process(target=work, args=(job, theirs, others, number, seed), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def batches(self, indices, seed):
        """Yield batches in the order of `indices`; the workers run `ahead` batches each in advance."""
        self.epoch += 1
        epoch, indices = self.epoch, enumerate(indices)
        self.waiting, self.arrived, finished = {}, {}, set()
        following, turn = 0, 0

        def ask():
            """Hand the next index to the next worker that is still at it."""
            nonlocal turn
            live = [n for n in range(self.count) if n not in finished]
            if not live:
                return
            item = next(indices, None)
            if item is None:
                return
            while turn % self.count in finished:
                turn += 1
            worker = turn % self.count
            turn += 1
            self.waiting[item[0]] = (worker, item[1])
            try:
                self.pipes[worker].send((epoch, *item, seed))
            except OSError:                # it died in the meantime
                self.lost(worker)

        for _ in range(self.count * self.ahead):
            ask()
        while self.waiting or self.arrived:
            while following not in self.arrived:
                self.receive(epoch, following)
            worker, result = self.arrived.pop(following)
            following += 1
            if isinstance(result, EndOfStream):
                finished.add(worker)
                ask()
                continue
            ask()
            if isinstance(result, Failure):
                self.close()
                result.raise_again()
            yield result

    def receive(self, epoch, wanted):
        """Wait for one message, or for the end of a worker."""
        from multiprocessing.connection import wait
        sentinels = {p.sentinel: n for n, p in enumerate(self.processes)}
        ready = wait([*self.pipes, *sentinels], self.timeout or None)
        if not ready:
            self.close()
            fail("DataLoader", f"timed out after {self.timeout} seconds", f"no batch {wanted}",
                 hint="a worker hangs, or a batch takes longer: pass a larger timeout=")
        for pipe in [r for r in ready if r in self.pipes]:
            try:
                their_epoch, task, result = pickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                self.lost(self.pipes.index(pipe))
            if their_epoch == epoch and task in self.waiting:
                self.arrived[task] = (self.waiting.pop(task)[0], result)
        if not any(r in self.pipes for r in ready):
            self.lost(sentinels[ready[0]])

    def lost(self, number):
        """A worker died: say which and how, and take the others down."""
        process = self.processes[number]
        process.join(JOIN_S)
        pid = process.pid
        index = next((i for w, i in self.waiting.values() if w == number), None)
        code = process.exitcode
        if code is not None and code < 0:
            how = f"is killed by signal: {signal.Signals(-code).name}"
        else:
            how = f"exited unexpectedly with exit code {code}"
        self.close()
        fail("DataLoader", f"worker (pid {pid}) {how}", f"it was fetching {_brief(index)}",
             hint="pass num_workers=0 to see the error in this process; a kill can mean that memory ran out")

    def close(self):
        """End all workers and release their pipes."""
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except (OSError, ValueError):
                pass
            pipe.close()
        for process in self.processes:
            process.join(JOIN_S if process.is_alive() else 0)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self.pipes, self.processes = [], []

    def __del__(self):
        if getattr(self, "processes", None) and os.getpid() == self.owner:
            self.close()


def _brief(index):
    text = f"the samples {index}" if isinstance(index, list) else "a batch" if index is None else f"sample {index}"
    return text if len(text) < 120 else text[:117] + "..."


def default_context():
    """fork where there is one (nothing needs to be picklable), else spawn."""
    import multiprocessing
    return "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
