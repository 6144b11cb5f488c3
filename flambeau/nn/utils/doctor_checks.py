"""What can be wrong with a training step: one function a kind of fault, each from `Observations` to findings.

Bounds are rules of thumb, stated once here. Sources: Glorot and Bengio, "Understanding the difficulty of
training deep feedforward neural networks" (2010); Karpathy, "A recipe for training neural networks" (2019).
"""

import math
from collections import Counter
from dataclasses import dataclass

__all__ = ["CHECKS", "Finding"]

LARGE_INPUT, SMALL_INPUT = 20.0, 1e-3       # of |mean| and standard deviation
FEATURES_APART = 1e3                        # largest to smallest standard deviation of the features
SMALL_UPDATE, LARGE_UPDATE = 1e-5, 1e-1     # |change| / |weight| a step
ANYHOW_LARGE_UPDATE = 0.5                   # also where the loss falls
DEAD_SHARE, SATURATED_SHARE = 0.4, 0.5
LARGE_GRADIENT, SMALL_GRADIENT, LAYERS_APART = 1e3, 1e-9, 1e5
LARGE_SCORE, COLLAPSED_SHARE = 50.0, 0.9
NEAR_CHANCE, FAR_ABOVE_CHANCE = 0.02, 5.0
LISTED = 4                                  # names in one message


@dataclass(frozen=True)
class Finding:
    """One fault. rank: faults of a lower rank explain those of a higher one. kind: a short name."""

    rank: int
    kind: str
    problem: str
    advice: str

    def __str__(self):
        return f"{self.problem}\n     {self.advice}"


def listed(names):
    names = list(names)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def trained(seen):
    """{name: parameter} of those that are to be trained."""
    return {name: p for name, p in seen.parameters.items() if p.requires_grad}


def matrices(seen):
    """Names of the trained weights with two axes or more: those whose relative change means something."""
    return [name for name, p in trained(seen).items() if p.ndim > 1 and seen.weights.get(name)]


# ---------------------------------------------------------------------------------- inputs
def check_inputs(seen):
    import numpy
    for name, values in seen.inputs:
        wrong = int((~numpy.isfinite(values)).sum())
        if wrong:
            yield Finding(0, "inputs", f"{name} of the model has {wrong} values that are NaN or infinite",
                          "clean the data; look at divisions by zero and missing values where it is prepared")
        elif values.size > 1:
            yield from _ranges(name, values)


def _ranges(name, values):
    mean, deviation = float(values.mean()), float(values.std())
    if deviation == 0:
        yield Finding(1, "inputs", f"{name} of the model is constant: every value is {mean:g}",
                      "is the right tensor passed, and filled?")
        return
    if values.ndim > 1 and len(values) > 2 and (values == values[:1]).all():
        yield Finding(1, "inputs", f"{name} of the model: all {len(values)} examples of the batch are the "
                                   "same", "look at the data set's __getitem__ and at the sampler")
    if abs(mean) > LARGE_INPUT or deviation > LARGE_INPUT or deviation < SMALL_INPUT:
        yield Finding(2, "inputs", f"{name} of the model is not normalised: mean {mean:.3g}, standard "
                                   f"deviation {deviation:.3g}, from {values.min():.3g} to "
                                   f"{values.max():.3g}",
                      "subtract the mean and divide by the standard deviation of the training data "
                      "(pixels: divide by 255 first)")
    elif values.ndim == 2 and len(values) > 2:
        spread = values.std(0)
        spread = spread[spread > 0]
        if spread.size > 1 and spread.max() / spread.min() > FEATURES_APART:
            yield Finding(2, "inputs", f"{name} of the model has features of scales apart: standard "
                                       f"deviations from {spread.min():.3g} to {spread.max():.3g}",
                          "normalise each feature by itself")


# ---------------------------------------------------------------------------------- loss
def check_loss(seen):
    losses = seen.losses
    if not seen.has_history:
        yield Finding(1, "loss", "the loss does not require grad: nothing can be trained",
                      "look for detach(), item(), numpy(), no_grad() or an argmax between the parameters "
                      "and the loss")
    wrong = [i for i, loss in enumerate(losses) if not math.isfinite(loss)]
    if wrong:
        where = ""
        if seen.not_finite:
            where = f"; the first output that is not finite is that of {seen.not_finite}"
        yield Finding(3, "loss", f"the loss is {losses[wrong[0]]:g} at step {wrong[0]}{where}",
                      "run the step inside autograd.detect_anomaly(); look at logarithms, divisions, exp "
                      "and the learning rate")
        return
    if seen.not_finite:
        yield Finding(3, "loss", f"an output of {seen.not_finite} is not finite", "look at what it gets")
    if len(losses) < 2 or not seen.changed:
        return
    first, last = losses[0], losses[-1]
    scale = max(abs(first), 1e-12)
    chance = math.log(seen.classes) if seen.classes and seen.classes > 1 else None
    if all(b >= a for a, b in zip(losses, losses[1:])) and last - first > 0.3 * scale:
        yield Finding(6, "loss", f"the loss rises: {_trend(losses)}",
                      "lower the learning rate; is the sign of the loss right?")
    elif abs(last - first) < 1e-5 * scale and max(losses) - min(losses) < 1e-5 * scale:
        near = chance is not None and abs(first - chance) < NEAR_CHANCE * chance
        at = f", at chance level for {seen.classes} classes (ln {seen.classes} = {chance:.3f})"
        at = at if near else ""
        yield Finding(6, "loss", f"the loss does not fall: {_trend(losses)}{at}",
                      "do the targets belong to the inputs? are updates too small, units dead, layers "
                      "detached?")
    elif chance is not None and first > FAR_ABOVE_CHANCE * chance:
        yield Finding(6, "loss",
                      f"the loss starts far above chance level: {first:.3g}, ln({seen.classes}) = "
                      f"{chance:.3g}",
                      "normalise the inputs and start the last layer with smaller weights")


def _trend(losses):
    return " -> ".join(f"{loss:.5g}" for loss in losses)


def check_double_softmax(seen):
    if seen.double_softmax:
        yield Finding(2, "softmax", "cross_entropy gets the result of a softmax: it takes the softmax itself",
                      "give it the scores (logits); use softmax only where probabilities are wanted")


# ---------------------------------------------------------------------------------- who is trained
def check_reached(seen):
    missing = [name for name in trained(seen) if name not in seen.gradients]
    if missing and seen.has_history:
        everything = len(missing) == len(trained(seen))
        yield Finding(3, "no gradient", ("no parameter gets a gradient" if everything else
                                         f"parameters without gradient: {listed(missing)}"),
                      "they are not used for the loss, or detached from it (detach, item, no_grad, new "
                      "tensors made of their values); requires_grad_(False) for those that are to stay")


def check_optimizer(seen):
    if seen.optimizer is None:
        return
    held = [p for group in seen.optimizer.param_groups for p in group["params"]]
    counts, own = Counter(map(id, held)), {id(p): name for name, p in seen.parameters.items()}
    twice = [own.get(i, "a parameter") for i, count in counts.items() if count > 1]
    if twice:
        yield Finding(2, "optimizer", f"the optimizer holds parameters twice: {listed(twice)}",
                      "each is updated twice a step: give every parameter to one group once (tied weights "
                      "too)")
    if seen.model is None:
        return
    in_model = {id(p) for p in seen.model.parameters()}
    left = [name for name, p in trained(seen).items() if id(p) in in_model and id(p) not in counts]
    foreign = [i for i in counts if i not in in_model]
    if left:
        yield Finding(2, "optimizer", f"the optimizer does not have {listed(left)}",
                      "make the optimizer after the model is complete, from model.parameters()")
    if foreign and not any(i in in_model for i in counts):
        yield Finding(1, "optimizer", "the optimizer has none of the model's parameters",
                      "it was made for another model, or the model's parameters were replaced afterwards")


def check_zeroed(seen):
    if seen.piled:
        yield Finding(2, "zero_grad", "gradients are not zeroed between steps: "
                                      f"{listed(sorted(seen.piled))} still had the last step's when the "
                                      "next one arrived", "call optimizer.zero_grad() before backward()")


def check_modes(seen):
    if not seen.evaluating or not seen.gradients or seen.model is None:
        return
    if not seen.model.training and any(_matters(part) for _, part in seen.evaluating):
        yield Finding(2, "mode",
                      "the model is in eval mode while it is trained: batch norm uses its running statistics "
                      "and dropout is off", "call model.train() before the steps")
        return
    frozen = [path for path, part in seen.evaluating if "BatchNorm" in type(part).__name__
              and any(p.requires_grad for p in part.parameters())]
    if frozen:
        yield Finding(4, "mode", f"batch norm in eval mode while it is trained: {listed(frozen)}",
                      "call model.train(); to freeze it on purpose, requires_grad_(False) its parameters too")


def _matters(module):
    name = type(module).__name__
    return "Norm" in name and hasattr(module, "running_mean") or "Dropout" in name


# ---------------------------------------------------------------------------------- updates and gradients
def check_updates(seen):
    import numpy
    if not seen.gradients or not any(any(steps) for steps in seen.gradients.values()):
        return
    if not seen.changed:
        if seen.optimizer is not None:
            yield Finding(2, "learning rate", "the parameters do not change in a step",
                          "call optimizer.step() after backward(), with a learning rate above 0")
        return
    ratios = {name: float(numpy.median(seen.updates[name])) for name in matrices(seen)
              if name in seen.gradients}
    ratios = {name: ratio for name, ratio in ratios.items() if math.isfinite(ratio)}
    falls = all(b < a for a, b in zip(seen.losses, seen.losses[1:]))
    bound = ANYHOW_LARGE_UPDATE if falls else LARGE_UPDATE
    large = sorted((name for name, ratio in ratios.items() if ratio > bound), key=lambda n: -ratios[n])
    small = [name for name, ratio in ratios.items() if ratio < SMALL_UPDATE]
    if large:
        top = ratios[large[0]]
        others = f"; also {listed(large[1:])}" if large[1:] else ""
        yield Finding(4, "learning rate",
                      f"the learning rate is too large: a step changes {large[0]} by {top:.2g} of its size "
                      f"(a good step is near 1e-3){others}",
                      f"divide the learning rate by about {top / 1e-2:.0f}")
    elif small and len(small) * 2 > len(ratios):
        typical = float(numpy.median(list(ratios.values())))
        by = f"multiply the learning rate by about {1e-3 / max(typical, 1e-30):.0e}"
        yield Finding(5, "learning rate", "the learning rate is too small: a step changes the weights by "
                                          f"{typical:.2g} of their size (a good step is near 1e-3)", by)


def check_gradients(seen):
    finite = {name: [size for size in steps if math.isfinite(size)] for name, steps in seen.gradients.items()}
    wrong = [name for name, steps in seen.gradients.items() if not math.isfinite(steps[0])]
    if wrong:
        yield Finding(4, "gradients", f"gradients are NaN or infinite: {listed(wrong)}",
                      "run the step inside autograd.detect_anomaly(): it names the line")
        return
    sizes = {name: max(finite[name]) for name in matrices(seen) if name in finite}
    if not sizes:
        return
    largest, smallest = max(sizes, key=sizes.get), min(sizes, key=sizes.get)
    norms = {name: sizes[name] * math.sqrt(seen.parameters[name].numel()) for name in sizes}
    total = math.sqrt(sum(norm * norm for norm in norms.values()))
    alive = {name: size for name, size in sizes.items() if size > 0}
    if total > LARGE_GRADIENT:
        top = max(norms, key=norms.get)
        yield Finding(4, "gradients", f"gradients explode: their norm is {total:.3g}, the largest is that "
                                      f"of {top}",
                      "clip_grad_norm_(model.parameters(), 1.0), normalise the inputs, use smaller initial "
                      "weights or normalisation layers")
    elif not alive:
        yield Finding(4, "gradients", "all gradients are zero",
                      "look at dead units and at what the loss depends on")
    elif sizes[largest] < SMALL_GRADIENT or alive and sizes[largest] > LAYERS_APART * sizes[smallest]:
        yield Finding(4, "gradients", f"gradients vanish: {sizes[smallest]:.2g} a weight in {smallest}, "
                                      f"{sizes[largest]:.2g} in {largest}",
                      "use ReLU-like activations, residual connections, normalisation layers or another "
                      "initialisation")


# ---------------------------------------------------------------------------------- units
def check_dead(seen):
    dead = {unit.label: float(unit.dead.mean()) for unit in seen.units.values() if unit.dead is not None}
    for label, share in dead.items():
        if share > DEAD_SHARE:
            yield Finding(5, "dead units", f"{share:.0%} of the units of {label} are dead: zero for all "
                                           "inputs",
                          "lower the learning rate, check the biases and the inputs' scale, or use "
                          "leaky_relu or gelu")


def check_saturated(seen):
    for unit in seen.units.values():
        if unit.op in ("tanh", "sigmoid") and unit.share > SATURATED_SHARE:
            yield Finding(5, "saturation", f"{unit.share:.0%} of the values of {unit.label} are saturated",
                          "its inputs are too large: normalise them, or use smaller weights")


def check_attention(seen):
    for unit in seen.units.values():
        if unit.op != "attention" or unit.share < COLLAPSED_SHARE and (unit.peak or 0) < LARGE_SCORE:
            continue
        peak = f"; the largest score is {unit.peak:.3g}" if unit.peak is not None else ""
        yield Finding(5, "attention",
                      f"attention scores explode in {unit.label}: {unit.share:.0%} of the rows look at one "
                      f"place only{peak}",
                      "divide the scores by the square root of the head's width; normalise queries and keys; "
                      "lower the learning rate")


CHECKS = (check_inputs, check_loss, check_double_softmax, check_reached, check_optimizer, check_zeroed,
          check_modes, check_updates, check_gradients, check_dead, check_saturated, check_attention)
