"""The recipe: named stages from a graph to an executable plan.

`GRAPH_STAGES` rewrite graphs, `LOOP_STAGES` rewrite kernels; what follows is LLVM text and object code. `watch` lets the viewer
and the tests see every intermediate form.
"""

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable

from flambeau.compiler import objects
from flambeau.compiler.expand import expand_math
from flambeau.compiler.simplify import simplify
from flambeau.compiler.vectorize import vectorize
from flambeau.ir.rewrite import eliminate_common_subexpressions, eliminate_dead_code
from flambeau.runtime.threads import default_threads


@dataclass(frozen=True)
class Stage:
    """One step: what it does to the form it is given, and why it is there."""

    name: str
    function: Callable
    why: str


GRAPH_STAGES = (
    Stage("simplify", simplify, "identities (x * 1, cast to the same dtype) cost a kernel and save nothing"),
    Stage("share", eliminate_common_subexpressions, "derivatives repeat what the forward pass computed"),
    Stage("prune", eliminate_dead_code, "what no output needs is not computed"),
)
LOOP_STAGES = (
    Stage("vectorize", vectorize, "loops over elements run 64 bytes at a time"),
    Stage("expand_math", expand_math, "exp, tanh, ... become arithmetic, the same bits on every machine"),
)

_watchers, _complete = [], []


@contextmanager
def watch(function):
    """Call function(stage name, form) for every form that is made inside the block."""
    _watchers.append(function)
    try:
        yield
    finally:
        _watchers.remove(function)


@contextmanager
def all_kernels():
    """Inside the block plans build every kernel at once, not when a call first needs it."""
    _complete.append(True)
    try:
        yield
    finally:
        _complete.pop()


def builds_all():
    """True inside of `all_kernels`."""
    return bool(_complete)


def is_watched():
    """True while somebody looks at the forms: then every one of them is made."""
    return bool(_watchers)


def show(name, form):
    for function in _watchers:
        function(name, form)


def run_stages(stages, form):
    """Pass a form through stages in order."""
    for stage in stages:
        form = stage.function(form)
        show(stage.name, form)
    return form


def prepare_graph(graph):
    """The graph stages."""
    show("graph", graph)
    return run_stages(GRAPH_STAGES, graph)


def lower_kernel(kernel):
    """The loop stages."""
    show("loops", kernel)
    kernel = run_stages(LOOP_STAGES, kernel)
    show("kernel", kernel)
    return kernel


def build_kernel(kernel):
    """Loops -> address of the native function. A kernel known to the cache skips the stages, unless somebody watches."""
    if _watchers:
        return objects.load_kernel(lower_kernel(kernel))[0]
    return objects.load_unlowered(kernel, lower_kernel)[0]


def build_kernels(kernels):
    """The addresses of several kernels, made on several threads: LLVM needs the interpreter's lock seldom."""
    helpers = min(len(kernels), default_threads()) - 1
    if helpers < 1 or _watchers:
        return [build_kernel(kernel) for kernel in kernels]
    addresses, problems, left = [None] * len(kernels), [], list(enumerate(kernels))

    def work():
        while left and not problems:
            try:
                number, kernel = left.pop()
            except IndexError:          # another thread took the last one
                return
            try:
                addresses[number] = build_kernel(kernel)
            except BaseException as problem:
                problems.append(problem)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return addresses
