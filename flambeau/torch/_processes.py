"""What torch.multiprocessing has: Python's multiprocessing and `spawn`.

Tensors travel by value, those in shared memory (`share_memory_`) by the descriptor of their block.
"""

import multiprocessing
from multiprocessing import *  # noqa: F403

__all__ = [*multiprocessing.__all__, "get_all_sharing_strategies", "get_sharing_strategy",
           "set_sharing_strategy", "spawn",
           "start_processes"]


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Run `fn(number, *args)` in `nprocs` processes; with `join` wait for them, and raise if one fails."""
    context = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(number, *args), daemon=daemon) for number in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for number, process in enumerate(processes):
        process.join()
        if process.exitcode:
            raise RuntimeError(f"process {number} terminated with exit code {process.exitcode}")
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` with fresh interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies():
    """{'file_system'}"""
    return {"file_system"}


def get_sharing_strategy():
    """'file_system'"""
    return "file_system"


def set_sharing_strategy(new_strategy):
    """Remembered nowhere: there is one way to share memory."""
