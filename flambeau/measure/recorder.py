"""The recorder of a profile: an interposer that notes when each op, backward node and named block began and
ended.

While none is there, nothing is noted and nothing costs. While one is, each call takes a detour through
Python of some microseconds; the times that it notes are those of the call itself.
"""

import functools
import sys
import threading
import time

from flambeau.base.source import is_own
from flambeau.measure import flops as counts
from flambeau.ops import interpose
from flambeau.ops.spec import bind
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor

__all__ = ["Recorder", "Span", "record_function"]

# PyTorch's names of what is called otherwise here
_NAMES = {
    "uniform_like": "uniform_",
    "normal_like": "normal_",
    "integer_like": "random_",
    "cast": "to",
    "copy": "copy_",
    "slice_": "slice",
    "attention": "scaled_dot_product_attention",
    "max_along": "max",
    "min_along": "min",
    "batch_norm_train": "batch_norm",
    "batch_norm_eval": "batch_norm",
    "dropout_with_key": "dropout",
    "dropout_with_mask": "dropout",
    "recurrent_layer": "rnn",
    "iota": "arange",
    "_true_starts": "count_nonzero",
    "_true_places": "nonzero",
}
_DEEPEST = 32


class Span:
    """A piece of time with a name; `kind` is "op", "backward" or "user"."""

    __slots__ = ("end", "flops", "kind", "memory", "name", "parent", "shapes", "stack", "start", "thread")

    def __init__(self, name, kind, parent, thread):
        self.name, self.kind, self.parent, self.thread = name, kind, parent, thread
        self.start = self.end = self.memory = self.flops = 0
        self.shapes = self.stack = None


def _live():
    return _core.memory_stats()["live_bytes"]


class Recorder(interpose.Interposer):
    """Notes spans in `spans`, in the order in which they begin, of this thread, while it is entered.

    Args:
        shapes, memory, stack, flops: also note the shapes of inputs, bytes allocated less those freed, lines
            of the program, counts of operations.
    """

    sees_walks = True

    def __init__(self, shapes=False, memory=False, stack=False, flops=False):
        self.options = {"shapes": shapes, "memory": memory, "stack": stack, "flops": flops}
        self.spans, self.open, self.running, self.walking = [], [], False, 0
        self.thread = threading.get_native_id()

    # ------------------------------------------------------------------ begin and end
    def __enter__(self):
        from flambeau.optim import optimizer

        self.running = True
        self.handles = [
            optimizer.register_optimizer_step_pre_hook(self.begin_step),
            optimizer.register_optimizer_step_post_hook(self.end_step),
        ]
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.running = False
        for handle in self.handles:
            handle.remove()
        while self.open:
            self.end(self.open[-1])

    def begin(self, name, kind):
        """A new span inside the one that is open."""
        span = Span(name, kind, self.open[-1] if self.open else None, self.thread)
        if self.options["stack"]:
            span.stack = lines_of_program()
        self.spans.append(span)
        self.open.append(span)
        if self.options["memory"]:
            span.memory = -_live()
        span.start = time.perf_counter_ns()
        return span

    def end(self, span):
        """The end of a span, and of those that are open inside it."""
        now = time.perf_counter_ns()
        while span in self.open:
            last = self.open.pop()
            last.end = now
            if self.options["memory"]:
                last.memory += _live()

    # ------------------------------------------------------------------ ops
    def handle(self, operation, args, kwargs):
        if any(getattr(type(each), "is_traced", False) for each in args):
            return bind(operation, args, kwargs)  # a program is written, nothing is computed
        span = self.begin("aten::" + _NAMES.get(operation.name, operation.name), "op")
        if self.options["shapes"]:
            span.shapes = [list(each.shape) if isinstance(each, Tensor) else [] for each in args]
        try:
            result = operation.function(*args, **kwargs)
        finally:
            self.end(span)
        if self.options["flops"]:
            span.flops = counts.of_call(operation, args, result)
        made = result[0] if isinstance(result, tuple) and result else result
        if isinstance(made, Tensor) and made.requires_grad and made.grad_fn is not None:
            self.watch_node(made.grad_fn, span.flops and counts.of_backward(operation, args, span.flops))
        return result

    # ------------------------------------------------------------------ backward passes
    def watch_node(self, node, flops):
        """Note when a walk comes to `node`: until it comes to the next one, time is that node's."""
        if hasattr(node, "_add_hook"):
            name = node.name() if callable(node.name) else node.name
            node._add_hook(0, functools.partial(self.enter_node, name, flops))

    def enter_node(self, name, flops, grad):
        if not self.running or not self.walking or self.thread != threading.get_native_id():
            return
        self.leave_node()
        self.begin(name, "backward").flops = flops

    def leave_node(self):
        if self.open and self.open[-1].kind == "backward":
            self.end(self.open[-1])

    def walk(self, run):
        """A backward pass: `run()` walks it."""
        span = self.begin("autograd::engine::execute", "user")
        self.walking += 1
        try:
            return run()
        finally:
            self.walking -= 1
            self.leave_node()
            self.end(span)

    # ------------------------------------------------------------------ optimizers
    def begin_step(self, optimizer, args, kwargs):
        if self.thread == threading.get_native_id():
            self.begin(f"Optimizer.step#{type(optimizer).__name__}.step", "user")

    def end_step(self, optimizer, args, kwargs):
        name = f"Optimizer.step#{type(optimizer).__name__}.step"
        if self.open and self.open[-1].name == name and self.thread == threading.get_native_id():
            self.end(self.open[-1])


def lines_of_program():
    """The calling lines outside of this package, innermost first: "file(line): function"."""
    frame, lines = sys._getframe(2), []
    while frame is not None and len(lines) < _DEEPEST:
        if not is_own(frame):
            code = frame.f_code
            lines.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return lines


class record_function:  # noqa: N801 - PyTorch's name
    """A block, or as a decorator a function, that profiles show under `name`; nothing happens without a
    profile.

    >>> from flambeau.measure.profiler import profile
    >>> with profile() as found:
    ...     with record_function("my block"):
    ...         pass
    >>> [event.name for event in found.events()]
    ['my block']
    """

    def __init__(self, name, args=None):
        self.name, self.args, self.spans = name, args, ()

    def __enter__(self):
        self.spans = ()
        if _core.get_mode():
            self.spans = [
                (each, each.begin(self.name, "user"))
                for each in interpose.stack()
                if isinstance(each, Recorder)
            ]
        return self

    def __exit__(self, *error):
        for recorder, span in self.spans:
            recorder.end(span)

    def __call__(self, function):
        @functools.wraps(function)
        def named(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named
