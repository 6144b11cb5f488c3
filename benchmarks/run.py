"""Benchmarks of Flambeau on this machine.

usage: python benchmarks/run.py [GROUP ...]      (all groups without arguments; `make bench` does that)

A group is a function of the measured Machine that returns text to print.
"""

import sys
import time

import busy
import machine
import op_speed
import runtime_costs
import start_up
import tape

GROUPS = {
    "machine": machine.report,
    "runtime": runtime_costs.report,
    "tape": tape.report,
    "start_up": start_up.report,
    "ops": op_speed.report,
    "busy": busy.report,
}


def main(names):
    """Run the named groups, all by default; returns the exit status."""
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        print(f"unknown group: {', '.join(unknown)}; groups are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    began = time.perf_counter()
    roofs = machine.measure()
    print(f"[roofs of this machine: {time.perf_counter() - began:.1f} s]\n", flush=True)
    for name in names or GROUPS:
        began = time.perf_counter()
        print(GROUPS[name](roofs))
        print(f"[{name}: {time.perf_counter() - began:.1f} s]\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
