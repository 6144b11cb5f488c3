"""The tape's public side: modes, backward, grad."""

import functools
import sys
import threading

from flambeau.base.errors import fail
from flambeau.base.source import is_own, show_source, user_source
from flambeau.ops import interpose
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.create import ones_like
from flambeau.types.regions import disjoint


class GradMode:
    """Switches recording for a block or, as a decorator, for a function."""

    def __init__(self, enabled):
        self.enabled = enabled

    def __enter__(self):
        self.before = _core.set_grad_mode(self.enabled)
        return self

    def __exit__(self, *error):
        _core.set_grad_mode(self.before)

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with type(self)(self.enabled) if type(self) is GradMode else type(self)():
                return function(*args, **kwargs)
        return wrapped


class no_grad(GradMode):        # noqa: N801 - PyTorch's name
    """Inside, nothing is recorded: results do not require gradients."""

    def __new__(cls, function=None):
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()
        return made(function)

    def __init__(self, function=None):
        super().__init__(False)


class enable_grad(no_grad):     # noqa: N801
    """Inside, recording is on, also within no_grad."""

    def __init__(self, function=None):
        GradMode.__init__(self, True)


class inference_mode(GradMode):     # noqa: N801
    """no_grad for inference."""

    def __new__(cls, mode=True):
        made = super().__new__(cls)
        if not callable(mode):
            return made
        made.__init__()
        return made(mode)           # a decorator without brackets

    def __init__(self, mode=True):
        super().__init__(not mode)
        self.mode = bool(mode)

    def __enter__(self):
        self.mode_before = is_inference_mode_enabled()
        _inference.enabled = self.mode
        return super().__enter__()

    def __exit__(self, *error):
        _inference.enabled = self.mode_before
        super().__exit__(*error)

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with inference_mode(self.mode):
                return function(*args, **kwargs)
        return wrapped


_inference = threading.local()


def is_inference_mode_enabled():
    """True inside `inference_mode`."""
    return getattr(_inference, "enabled", False)


class set_grad_enabled(GradMode):       # noqa: N801
    """Switch recording on or off, from now on or for a block."""

    def __init__(self, mode):
        super().__init__(bool(mode))
        self.before = _core.set_grad_mode(bool(mode))

    def __enter__(self):
        _core.set_grad_mode(self.enabled)
        return self


def is_grad_enabled():
    """True if operations are recorded."""
    return _core.grad_mode()


def _start(name, outputs, gradients):
    """Checked roots and their gradients."""
    roots, grads = [], []
    for i, t in enumerate(outputs):
        g = None if gradients is None else gradients[i]
        if not t.requires_grad:
            fail(name, f"element {i} of tensors does not require grad and does not have a grad_fn",
                 hint="set requires_grad=True on an input, and check that no_grad() is not active")
        if g is None:
            if t.numel() != 1:
                fail(name, "grad can be implicitly created only for scalar outputs", tuple(t.shape),
                     "one element",
                     hint="reduce it with .sum() or .mean(), or pass gradient=")
            if t.is_complex():
                fail(name, "grad can be implicitly created only for real scalar outputs", t.dtype,
                     hint="take .real, .imag or .abs() first, or pass gradient=")
            g = ones_like(t.detach())
        elif tuple(g.shape) != tuple(t.shape):
            fail(name, f"Mismatch in shape: grad_output[{i}]", tuple(g.shape), tuple(t.shape))
        if is_wrapped(t):           # sparse: the tape knows the values
            t, g = t.inner, t.values_of(g)
        roots.append(t)
        grads.append(g)
    return roots, grads


def _listed(value):
    return [value] if isinstance(value, Tensor) else None if value is None else list(value)


def _walk(roots, grads, keep, create_graph, inputs, accumulate):
    """The backward pass, without what interposes in the computation itself."""
    run = functools.partial(_core.run_backward, roots, grads, bool(keep), bool(create_graph), inputs, accumulate)
    for each in interpose.stack() if _core.get_mode() else ():
        if each.sees_walks:
            run = functools.partial(each.walk, run)
    if not interpose.lasting():
        return run()
    with interpose.replaced(()):
        return run()


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Add to .grad of every leaf that `tensors` depend on (of `inputs` only, if given)."""
    roots, grads = _start("backward", _listed(tensors), _listed(grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    _walk(roots, grads, keep, create_graph, _listed(inputs), True)


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Add to .grad of every leaf this tensor depends on."""
    plain = gradient is None and inputs is None and not retain_graph and not create_graph
    if plain and _core.backward_from(self):
        return
    backward(self, gradient, retain_graph, create_graph, inputs)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The gradients of `outputs` with respect to `inputs`, as a tuple; .grad fields stay as they are.

    With `is_grads_batched` each of `grad_outputs` has one more axis in front, and so have the results: a
    gradient for each of its elements.
    """
    inputs = _listed(inputs)
    if is_grads_batched:
        return _grads_of_batch(_listed(outputs), inputs, _listed(grad_outputs), bool(retain_graph or create_graph),
                               create_graph=create_graph, allow_unused=allow_unused, materialize_grads=materialize_grads)
    for i, t in enumerate(inputs):
        if not t.requires_grad:
            fail("grad", "One of the differentiated Tensors does not require grad", f"input {i}",
                 hint="set requires_grad=True on it before it is used")
    roots, grads = _start("grad", _listed(outputs), _listed(grad_outputs))
    keep = create_graph if retain_graph is None else retain_graph
    known = [t.inner if is_wrapped(t) else t for t in inputs]
    recorded = create_graph or any(is_wrapped(g) for g in grads)     # a batch passes through ops only
    found = _walk(roots, grads, keep, recorded, known, False)
    if recorded and not create_graph:
        found = [None if g is None else g.detach() for g in found]
    found = [t._like(g) if is_wrapped(t) and g is not None else g for t, g in zip(inputs, found)]
    if materialize_grads:
        from flambeau.tensor.create import zeros_like
        found = [zeros_like(t) if g is None else g for t, g in zip(inputs, found)]
    elif not allow_unused and any(g is None for g in found):
        fail("grad", "One of the differentiated Tensors appears to not have been used in the graph",
             f"input {[g is None for g in found].index(True)}",
             hint="pass allow_unused=True to get None for it")
    return tuple(found)


def _grads_of_batch(outputs, inputs, grad_outputs, retain, **options):
    """`grad` for every element of the gradients' first axis."""
    from flambeau.ops.join import stack
    sizes = {len(g) for g in grad_outputs or () if g is not None and g.ndim}
    if len(sizes) != 1:
        fail("grad", "with is_grads_batched=True grad_outputs need one batch size", sorted(sizes), "tensors (batch, *shape)")
    count = sizes.pop()
    found = [grad(outputs, inputs, [None if g is None else g[i] for g in grad_outputs],
                  retain_graph=retain or i + 1 < count, **options) for i in range(count)]
    return tuple(None if column[0] is None else stack(list(column)) for column in zip(*found))


class AccumulateGrad:
    """The end of the tape at a leaf: `variable` is the leaf."""

    def __init__(self, variable):
        self.variable = variable
        self.next_functions = ()
        self.metadata = {}

    def name(self):
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, fn):
        """Call fn((), (gradient,)) when a gradient of the leaf is known."""
        def hook(gradient):
            fn((), (gradient,))
        return self.variable.register_hook(hook)

    def register_prehook(self, fn):
        """Call fn((gradient,)) when a gradient of the leaf is known; a result replaces it."""
        def hook(gradient):
            found = fn((gradient,))
            return found[0] if isinstance(found, tuple) else found
        return self.variable.register_hook(hook)

    def __eq__(self, other):
        return isinstance(other, AccumulateGrad) and self.variable is other.variable

    def __hash__(self):
        return hash(self.variable)

    def __repr__(self):
        return f"<AccumulateGrad object at {hex(id(self.variable))}>"


def saved_by_name(node, name):
    """What `grad_fn._saved_<name>` is."""
    from flambeau.tensor import graph
    return graph.saved_by_name(node, name)


def note_write(op):
    """(op, where): kept with a storage that some recorded op relies on."""
    return op, user_source()


def stale_message(op, saved, index, then, now, note, source):
    """Why a gradient cannot be computed: which variable, which op saved it (at `source`), which
    statement wrote over it (`note`)."""
    name = variable_name(saved)
    what = ("its output" if index < 0 else f"its input {index}") + (f", the variable '{name}'," if name else "")
    text = ("one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{op}] saved {what} of shape {tuple(saved.shape)} at version {then}, it is at version {now} now")
    if source is not None:
        text += f"\n  saved at {show_source(source)}"
    writer, place = note
    text += f"\n  written by {writer}" + (f" at {show_source(place)}" if place else "")
    return text + "\n  hint: use the out-of-place form of the write, or clone() the tensor before it is written"


def variable_name(tensor):
    """The name under which a frame of the user's holds a tensor with this memory, None if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_own(frame):
            for name, value in list(frame.f_locals.items()):
                if isinstance(value, Tensor) and value.storage_ is not None and value.storage_ is tensor.storage_ \
                        and tuple(value.shape) == tuple(tensor.shape):
                    return name
        frame = frame.f_back
    return None


_core.set_hook("note_write", note_write)
_core.set_hook("stale", stale_message)
_core.set_hook("disjoint", disjoint)
_core.set_hook("saved_by_name", saved_by_name)
_core.set_hook("accumulate_node", AccumulateGrad)
