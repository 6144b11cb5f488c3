"""The command line: `flambeau run | check | doctor | show | ops | cache | pack`.

Each command is a function `run(options) -> exit status` in a module of its own, imported when called, so
`flambeau run` adds little to a script's own start.
"""

import importlib
import os
import sys

STAGES = ("graph", "loops", "llvm", "asm")


def main(arguments=None):
    """Run the command line `arguments` (a list, by default this process's) and return the exit status."""
    options = make_parser().parse_args(arguments)
    run = importlib.import_module(f"flambeau.cli.{options.command}").run
    if options.command in ("run", "show"):          # what a script does with its pipes is its own matter
        return run(options)
    try:
        status = run(options)
        sys.stdout.flush()
    except BrokenPipeError:                         # `flambeau ops | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def make_parser():
    import argparse

    parser = argparse.ArgumentParser(prog="flambeau", description="Deep learning, down to the machine code.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a PyTorch script: `import torch` gives it Flambeau",
                              description="Run a script as Python would, with Flambeau as its `torch`.")
    run.add_argument("-m", dest="as_module", action="store_true", help="SCRIPT is the name of a module")
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="arguments of the script")

    check = commands.add_parser("check",
                                help="list which APIs of PyTorch a program uses and which are supported",
                                description="Read programs, without running them, and list their uses of PyTorch. "
                                            "The exit status is 1 if something is missing.")
    check.add_argument("scripts", metavar="SCRIPT", nargs="+", help="a file, or a folder of files")

    commands.add_parser("doctor", help="show what Flambeau finds here, and how to get what is missing")

    show = commands.add_parser("show", help="print what a script's functions are compiled to",
                               description="Run a script and print one stage of the kernels that it meets. "
                                           "What the script prints itself goes to stderr.")
    show.add_argument("script", metavar="SCRIPT")
    show.add_argument("--stage", choices=STAGES, default="graph", help="what to print (default: %(default)s)")

    ops = commands.add_parser("ops", help="print what each part of Flambeau does with each op",
                              description="The matrix op x consumer: how an op runs, compiles, differentiates.")
    ops.add_argument("pattern", nargs="?", help="only ops with this in their name (or like this: 'max_*')")
    ops.add_argument("--kind", help="only ops of this kind: elementwise, reduction, view, ...")
    ops.add_argument("--tsv", action="store_true", help="columns parted by tabs, without the summary")

    cache = commands.add_parser("cache", help="show or clear the compiled kernels kept on disk")
    cache.add_argument("action", nargs="?", choices=("size", "clear"), default="size",
                       help="(default: %(default)s)")

    pack = commands.add_parser("pack", help="compile the common kernels now, not at their first use")
    pack.add_argument("folder", nargs="?", help="where to (default: where Flambeau looks)")
    return parser


def complain(text):
    """Print an error of the command line and return its exit status."""
    print(f"flambeau: {text}", file=sys.stderr)
    return 2
