"""What other work on the machine costs: a convolution with every core taken by somebody else."""

import multiprocessing
import time

ROUNDS = 40


def _spin(stop):
    while not stop.is_set():
        for _ in range(100_000):
            pass


def _times(function):
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return sorted(found)


def report(roofs):
    """Least and middle time of a 3x3 convolution, alone and beside as many busy processes as there are cores.

    With every core taken twice a fair share is half of each core: twice the time. A pool that waits for a thread which
    the system does not run would take many time slices more.
    """
    import flambeau as fl
    from flambeau.base.text import human_time, table
    x, w = fl.randn(1, 64, 56, 56), fl.randn(64, 64, 3, 3)

    def run():
        return fl.nn.functional.conv2d(x, w, padding=1)

    run()
    alone = _times(run)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [context.Process(target=_spin, args=(stop,), daemon=True) for _ in range(fl.get_num_threads())]
    for other in others:
        other.start()
    time.sleep(1.0)
    beside = _times(run)
    stop.set()
    for other in others:
        other.join()
    middle = ROUNDS // 2
    rows = [("alone", human_time(alone[0]), human_time(alone[middle]), "1.0"),
            (f"beside {len(others)} busy processes", human_time(beside[0]), human_time(beside[middle]),
             f"{beside[middle] / alone[middle]:.1f}")]
    return table(rows, ("conv 3x3 1x64x56", "least", "middle", "middle against alone"))
