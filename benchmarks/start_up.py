"""How long a process takes to start: the least wall time of several, beside Python's own."""

import os
import subprocess
import sys
import time

ROUNDS = 7
AIM_S = 0.2         # of `import flambeau`, over Python's own start
CASES = (
    ("import flambeau", ("-c", "import flambeau")),
    ("import flambeau.torch", ("-c", "import flambeau.torch")),
    ("flambeau run (an empty script)", ("-m", "flambeau.cli", "run", os.devnull)),
    ("one addition", ("-c", "import flambeau; flambeau.ones(8) + 1")),
)


def wall_time(arguments):
    """Seconds of the quickest of ROUNDS processes."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times)


def report(roofs):
    """A table as text; `roofs` is not used."""
    from flambeau.base.text import human_time, table

    python = wall_time(("-c", ""))
    rows = [("python", human_time(python), "")]
    for name, arguments in CASES:
        wall = wall_time(arguments)
        rows.append((name, human_time(wall), human_time(wall - python)))
    aim = f"aim: `import flambeau` in {human_time(AIM_S)}"
    return table(rows, ("start-up", "wall", "over Python")) + "\n" + aim
