"""What a training step does, seen from outside: values, gradients and updates of some steps, as numbers."""

from dataclasses import dataclass, field

from flambeau.base import tree
from flambeau.base.source import show_source
from flambeau.nn.module import Module
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import enable_grad
from flambeau.tensor.explain import graph_order

__all__ = ["Observations", "Unit", "Watch"]

CLIPPING = {"relu": (0.0, 0.0), "tanh": (-0.97, 0.97), "sigmoid": (0.03, 0.97)}     # ends of the useful range
COLLAPSED = 0.999                   # a softmax whose largest probability is above has chosen one place


@dataclass
class Unit:
    """One activation or attention op over all steps: `dead[i]`: unit i was never above zero; share: of values
    that are
    saturated, or of rows that attend to one place; peak: the largest attention score."""

    label: str
    op: str
    dead: object = None
    share: float = 0.0
    peak: float = None


@dataclass
class Observations:
    """All that the checks look at. Lists have an entry a step, dicts are keyed by a parameter's name."""

    model: object = None
    optimizer: object = None
    parameters: dict = field(default_factory=dict)          # name -> parameter
    inputs: list = field(default_factory=list)              # (name, float64 array) of the first step
    losses: list = field(default_factory=list)
    classes: int = None                                     # of a cross entropy
    double_softmax: bool = False
    has_history: bool = True                                # the loss requires grad
    units: dict = field(default_factory=dict)               # label -> Unit
    not_finite: str = None                                  # label of the first module with such an output
    gradients: dict = field(default_factory=dict)           # name -> [rms]
    updates: dict = field(default_factory=dict)             # name -> [|change| / |weight|]
    weights: dict = field(default_factory=dict)             # name -> rms before
    changed: bool = False                                   # some parameter changed in some step
    # names whose gradient was added to an older step's
    piled: set = field(default_factory=set)
    evaluating: list = field(default_factory=list)          # (path, module) that ran in eval mode
    trains_itself: bool = False                             # the step runs backward


def rms(values):
    """Root of the mean square, NaN if some value is."""
    import numpy
    with numpy.errstate(over="ignore"):
        return float(numpy.sqrt(numpy.mean(numpy.square(values)))) if values.size else 0.0


def array(tensor):
    """A tensor's values as float64 (absolute values of complex ones)."""
    values = tensor.detach()
    return (values.abs() if values.is_complex() else values).double().numpy()


class Watch:
    """Runs a step under observation."""

    def __init__(self, step, model, optimizer, parameters, inputs):
        self.step, self.model, self.optimizer = step, model, optimizer
        self.seen = Observations(model, optimizer, parameters)
        self.paths, self.handles, self.arrived, self.old = {}, [], {}, {}
        self.moved = False                  # the last step changed a parameter
        if inputs is not None:
            self._note_inputs(tree.leaves(inputs))

    # ---- hooks
    def __enter__(self):
        if self.model is not None:
            self.handles.append(self.model.register_forward_pre_hook(self._before, with_kwargs=True))
            for path, module in self.model.named_modules():
                self.handles.append(module.register_forward_hook(self._after(path or type(module).__name__)))
            self.handles.append(self.model.register_forward_hook(self._whole))
        for name, parameter in self.seen.parameters.items():
            if parameter.requires_grad:
                self.handles.append(parameter.register_hook(self._arriving(name, parameter)))
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()

    def _before(self, module, args, kwargs):
        if not self.seen.inputs:
            self._note_inputs(tree.leaves((args, kwargs)))
        if not self.seen.evaluating and _core.grad_mode():
            self.seen.evaluating = [(path or type(part).__name__, part)
                                    for path, part in module.named_modules() if not part.training]

    def _note_inputs(self, leaves):
        self.seen.inputs = [(f"input {i}", array(leaf)) for i, leaf in enumerate(leaves)
                            if isinstance(leaf, Tensor) and leaf.is_floating_point()]

    def _after(self, path):
        def note(module, args, output):
            for leaf in tree.leaves(output):
                if not isinstance(leaf, Tensor):
                    continue
                if leaf.grad_fn is not None and not any(True for _ in module.children()):
                    self.paths[leaf.grad_fn] = path
                if self.seen.not_finite is None and leaf.is_floating_point() \
                        and not leaf.detach().isfinite().all():
                    self.seen.not_finite = path
        return note

    def _whole(self, module, args, output):
        leaves = [leaf for leaf in tree.leaves(output) if isinstance(leaf, Tensor)
                  and leaf.grad_fn is not None]
        self._look_at_graph(leaves)

    def _arriving(self, name, parameter):
        def note(gradient):
            if name not in self.arrived:
                self.old[name] = None if parameter.grad is None else array(parameter.grad).any()
                self.arrived[name] = rms(array(gradient))
        return note

    # ---- one step
    def run(self):
        """One step: its loss, gradients and updates are noted."""
        seen = self.seen
        before = {name: array(p).copy() for name, p in seen.parameters.items()}
        moved, self.moved = self.moved, False
        self.arrived, self.old, self.paths = {}, {}, {}
        with enable_grad():
            loss = self.step()
        self._note_loss(loss)
        if self.arrived:
            seen.trains_itself = True
            if moved:
                seen.piled.update(name for name, old in self.old.items() if old)
        elif isinstance(loss, Tensor) and loss.requires_grad and not seen.trains_itself:
            self._train(loss)
        for name, parameter in seen.parameters.items():
            start, now = before[name], array(parameter)
            size = rms(start)
            self.moved |= bool((now != start).any())
            seen.weights.setdefault(name, size)
            seen.updates.setdefault(name, []).append(rms(now - start) / size if size else 0.0)
            if name in self.arrived:
                seen.gradients.setdefault(name, []).append(self.arrived[name])
        seen.changed |= self.moved

    def _train(self, loss):
        """What a step that only computes the loss leaves to do."""
        for parameter in self.seen.parameters.values():
            parameter.grad = None
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()

    def _note_loss(self, loss):
        seen = self.seen
        if not isinstance(loss, Tensor):
            seen.losses.append(float(loss))
            return
        seen.losses.append(float(loss.detach().double().mean().item()))
        seen.has_history = seen.has_history and (loss.requires_grad or bool(self.arrived))
        if loss.grad_fn is not None:
            if self.model is None and not self.arrived:
                self._look_at_graph([loss])
            self._look_at_loss(loss)

    def _look_at_loss(self, loss):
        for node in graph_order([loss]):
            if node.operation.name != "cross_entropy_loss" or not node.next_functions:
                continue
            before = node.next_functions[0][0]
            if isinstance(before, _core.Node):
                shape = before.output_forms()[0][0]
                self.seen.classes = shape[1] if len(shape) > 1 and shape[1] is not ... else None
                self.seen.double_softmax |= before.operation.name == "softmax"

    # ---- the recorded graph
    def _look_at_graph(self, roots):
        order = graph_order(roots)
        users = {}
        for node in order:
            for after, _ in node.next_functions:
                if isinstance(after, _core.Node):
                    users.setdefault(after, []).append(node)
        taken = {}
        for node in order:
            op = node.operation.name
            if op not in CLIPPING and op not in ("softmax", "attention"):
                continue
            label = self._label(node)
            taken[label] = taken.get(label, 0) + 1
            label += f" ({taken[label]})" if taken[label] > 1 else ""
            if op in CLIPPING:
                self._note_activation(node, op, label)
            elif op == "attention":
                self._note_attention(node, label)
            elif any(_leads_to_product(user, users) for user in users.get(node, ())):
                self._note_weights(node, label)

    def _label(self, node):
        path = self.paths.get(node)
        if path:
            return f"{path} ({node.operation.name})"
        after, line = self._layer_before(node), show_source(node.recorded_at)
        return node.operation.name + (f" after {after}" if after else "") + (f" at {line}" if line else "")

    def _layer_before(self, node, depth=3):
        """The module whose parameter the op's input was made with, '' if there is none near."""
        names = {id(p): name for name, p in self.seen.parameters.items()}
        for before, _ in node.next_functions:
            if isinstance(before, _core.Node):
                found = self._layer_before(before, depth - 1) if depth else ""
            else:
                found = names.get(id(before.variable), "").rpartition(".")[0] if before is not None else ""
            if found:
                return found
        return ""

    def _note_activation(self, node, op, label):
        output = node.outputs()
        if output is None:
            return
        values = array(output)
        unit = self.seen.units.setdefault(label, Unit(label, op))
        low, high = CLIPPING[op]
        if op != "relu":
            unit.share = max(unit.share, float(((values < low) | (values > high)).mean())
                             if values.size else 0.0)
            return
        axis = 1 if values.ndim in (2, 4, 5) or _after_convolution(node) else values.ndim - 1
        if values.ndim < 2 or len(values) < 2:
            return
        dead = ~(values > 0).any(tuple(i for i in range(values.ndim) if i != axis))
        unit.dead = dead if unit.dead is None or unit.dead.shape != dead.shape else unit.dead & dead

    def _note_weights(self, node, label):
        """A softmax whose result weighs something: attention written out."""
        output = node.outputs()
        axis = (node.attributes or {}).get("dim", -1)
        if output is not None and output.ndim > 1 and output.shape[axis] > 2:
            self._note_rows(label, array(output).max(axis), None)

    def _note_attention(self, node, label):
        """The scores of the first example: query (b, h, g, l, d) times key (b, h, s, d)."""
        import numpy
        inputs = node.inputs()
        if any(not isinstance(value, Tensor) or value.is_shape_only for value in inputs[:2]):
            return
        query, key = array(inputs[0][:1]), array(inputs[1][:1])[:, :, None]
        scores = numpy.matmul(query, numpy.swapaxes(key, -1, -2)) * float(inputs[3])
        peak = float(numpy.abs(scores).max()) if scores.size else 0.0
        if (node.attributes or {}).get("is_causal"):
            hidden = ~numpy.tri(*scores.shape[-2:], dtype=bool)
            scores = numpy.where(hidden, -numpy.inf, scores)[..., 2:, :]
        if scores.size and scores.shape[-1] > 2:
            spread = numpy.exp(scores - scores.max(-1, keepdims=True))
            self._note_rows(label, 1 / spread.sum(-1), peak)

    def _note_rows(self, label, largest, peak):
        unit = self.seen.units.setdefault(label, Unit(label, "attention"))
        unit.share = max(unit.share, float((largest > COLLAPSED).mean()))
        unit.peak = peak if unit.peak is None else max(unit.peak, peak or 0.0)


def _leads_to_product(node, users, depth=4):
    """True if a result goes into a matrix product, maybe through dropout, casts and views."""
    name = node.operation.name
    if name in ("matmul", "mm", "bmm", "einsum"):
        return True
    passes = node.operation.python is not None and getattr(node.operation.python, "kind", "") == "view" \
        or name.startswith("dropout") or name in ("copy", "cast", "to")
    return bool(depth) and passes and any(_leads_to_product(user, users, depth - 1)
                                          for user in users.get(node, ()))


def _after_convolution(node, depth=4):
    for before, _ in node.next_functions:
        if isinstance(before, _core.Node) and depth:
            if before.operation.name.startswith("conv") or _after_convolution(before, depth - 1):
                return True
    return False


def found_in(step):
    """Objects that a step function refers to: its closure, the globals that it names, the object that it is
    bound to."""
    function = getattr(step, "__func__", step)
    found = [getattr(step, "__self__", None)]
    found += vars(found[0]).values() if hasattr(found[0], "__dict__") else []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is not None:
        found += [names[name] for name in code.co_names if name in names]
    return found


def is_model(value):
    return isinstance(value, Module)


def is_optimizer(value):
    return hasattr(value, "param_groups") and callable(getattr(value, "step", None))


def is_schedule(value):
    return hasattr(value, "last_epoch") and callable(getattr(value, "load_state_dict", None))
