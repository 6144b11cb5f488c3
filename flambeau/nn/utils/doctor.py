"""The training doctor: runs a training step a few times, looks at everything that usually goes wrong, and
undoes it."""

import copy
import html
import math
import random
import sys

from flambeau.base.text import table
from flambeau.nn.utils import doctor_watch as watch
from flambeau.nn.utils.doctor_checks import CHECKS, Finding
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import no_grad
from flambeau.tensor.rng import get_rng_state, set_rng_state

__all__ = ["Diagnosis", "Finding", "diagnose"]

SHOWN = 30          # parameters in a printed table


def diagnose(step, model=None, optimizer=None, inputs=None, steps=3, verbose=True):
    """Run a training step some times and say what is wrong with the training.

    Args:
        step: a function without arguments that returns the loss. It may do the whole step (zero_grad,
            backward,
            optimizer.step), or only compute the loss; then the rest is done here.
        model, optimizer: the module and its optimizer; without them those that `step` refers to.
        inputs: the model's inputs, where they are to be looked at and no model is given.
        steps: how often `step` is run, 2 at least to see a trend.
        verbose: print the report.

    Returns:
        A `Diagnosis`: `ok`, `findings` (the first to look at first), `rows` a parameter; `str()` is the
        report.

    Looked at: ranges of the inputs, the loss and its trend, the size of updates, gradients that are missing,
    vanish, explode or pile up, dead and saturated units, attention scores, eval mode, the optimizer's
    parameters. Parameters,
    buffers, gradients, the optimizer's and schedules' state and random generators are put back; what `step`
    takes from an iterator or writes elsewhere is not.

    >>> model = nn.Linear(4, 3)
    >>> optimizer = fl.optim.SGD(model.parameters(), lr=100.0)
    >>> x, y = fl.randn(16, 4), fl.randint(0, 3, (16,))
    >>> def loss():
    ...     return nn.functional.cross_entropy(model(x), y)
    >>> found = fl.autograd.diagnose(loss, model, optimizer, verbose=False)
    >>> "learning rate" in [finding.kind for finding in found.findings]
    True
    """
    found = watch.found_in(step)
    model = model if model is not None else next(filter(watch.is_model, found), None)
    optimizer = optimizer if optimizer is not None else next(filter(watch.is_optimizer, found), None)
    parameters = _parameters(model, optimizer)
    schedules = [value for value in found if watch.is_schedule(value)]
    with _Restored(model, optimizer, parameters, schedules), \
            watch.Watch(step, model, optimizer, parameters, inputs) as watched:
        for _ in range(steps):
            watched.run()
    report = Diagnosis(watched.seen)
    if verbose:
        print(report)
    return report


def _parameters(model, optimizer):
    """{name: parameter} of the model, and of the optimizer where the model has them not."""
    named = {} if model is None else dict(model.named_parameters())
    known = {id(p) for p in named.values()}
    for g, group in enumerate([] if optimizer is None else optimizer.param_groups):
        for i, parameter in enumerate(group["params"]):
            if id(parameter) not in known:
                known.add(id(parameter))
                named[f"optimizer group {g}, parameter {i}"] = parameter
    return named


class _Restored:
    """Puts back, at the end, all that training steps change."""

    def __init__(self, model, optimizer, parameters, schedules):
        buffers = [] if model is None else [b for b in model.buffers() if b is not None]
        self.tensors = [(t, t.detach().clone()) for t in (*parameters.values(), *buffers)]
        self.gradients = [(p, p.grad, None if p.grad is None else p.grad.detach().clone())
                          for p in parameters.values()]
        self.optimizer = optimizer
        if optimizer is not None:
            self.state = {p: _copied(values) for p, values in optimizer.state.items()}
            self.groups = [{name: value for name, value in group.items() if name != "params"}
                           for group in optimizer.param_groups]
        self.schedules = [(schedule, copy.deepcopy(schedule.state_dict())) for schedule in schedules]
        self.generator, self.python, self.numpy = get_rng_state().clone(), random.getstate(), None

    def __enter__(self):
        if "numpy" in sys.modules:
            import numpy
            self.numpy = numpy.random.get_state()

    def __exit__(self, *error):
        with no_grad():
            for tensor, before in self.tensors:
                tensor.detach().copy_(before)
            for parameter, gradient, before in self.gradients:
                if gradient is not None:
                    gradient.detach().copy_(before)
                parameter.grad = gradient
        if self.optimizer is not None:
            self.optimizer.state.clear()
            self.optimizer.state.update(self.state)
            for group, before in zip(self.optimizer.param_groups, self.groups):
                group.update(before)
        for schedule, state in self.schedules:
            schedule.load_state_dict(state)
        set_rng_state(self.generator)
        random.setstate(self.python)
        if self.numpy is not None:
            import numpy
            numpy.random.set_state(self.numpy)


def _copied(value):
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return copy.deepcopy(value)


class Diagnosis:
    """What `diagnose` found: `findings` in the order to look at them, `ok`, `rows`, and what was seen
    (`seen`)."""

    def __init__(self, seen):
        self.seen = seen
        self.findings = sorted((finding for check in CHECKS for finding in check(seen)),
                               key=lambda found: found.rank)

    @property
    def ok(self):
        """True if nothing was found."""
        return not self.findings

    @property
    def kinds(self):
        """The findings' short names, each once."""
        return list(dict.fromkeys(finding.kind for finding in self.findings))

    @property
    def rows(self):
        """A parameter each: (name, shape, size of a weight, of its gradient, of an update relative to the
        weight)."""
        seen = self.seen
        return [(name, tuple(p.shape), seen.weights.get(name, 0.0), max(seen.gradients.get(name, []),
                                                                        default=None),
                 max(seen.updates.get(name, []), default=None)) for name, p in seen.parameters.items()]

    def _table(self):
        rows = [(name, "×".join(map(str, shape)) or "number", f"{weight:.2g}", _number(gradient),
                 _number(update))
                for name, shape, weight, gradient, update in self.rows]
        if len(rows) > SHOWN:
            rows[SHOWN // 2:-SHOWN // 2] = [(f"... {len(rows) - SHOWN} more in .rows",)]
        return rows

    def __str__(self):
        losses = " -> ".join(f"{loss:.5g}" for loss in self.seen.losses)
        chance = f" (chance level of {self.seen.classes} classes: {math.log(self.seen.classes):.3f})" \
            if self.seen.classes and self.seen.classes > 1 else ""
        parts = [f"loss {losses}{chance}"]
        if self.rows:
            parts.append(table(self._table(), ("parameter", "shape", "weight", "gradient", "update/weight"),
                               "llrrr"))
        units = [(unit.label, "" if unit.dead is None else f"{unit.dead.mean():.0%} dead",
                  "" if unit.op == "relu" else f"{unit.share:.0%} " + (
                      "of rows at one place" if unit.op == "attention" else "saturated"))
                 for unit in self.seen.units.values()]
        if units:
            parts.append(table(units[:SHOWN], ("activation", "", "")))
        if self.ok:
            parts.append("nothing conspicuous")
        else:
            lines = [f"{i:2}. [{finding.kind}] {finding}" for i, finding in enumerate(self.findings, 1)]
            parts.append("\n".join(["look at first:", *lines]))
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


def _number(value):
    return "none" if value is None else f"{value:.2g}"
