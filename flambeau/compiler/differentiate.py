"""Reverse mode over a trace: gradients of composites that state no derivative of their own.

The composite is traced again on the inputs, then its nodes are walked backward and each op's `derivative` statement
is traced too. Everything lands in one graph: elementwise and view nodes of the forward pass are recomputed where the
gradient needs them, and what is not needed is pruned. A composite inside that states a derivative is one step.
"""

from dataclasses import dataclass

from flambeau.ir.graph import Literal, Value
from flambeau.ops import derive, plans, trace
from flambeau.ops.spec import REGISTRY
from flambeau.runtime._core import Tensor


@dataclass(eq=False)
class Step:
    """One op of the forward trace: operands are traced tensors or numbers, outputs traced tensors."""

    operation: object
    operands: list
    attrs: dict
    outputs: list


def differentiate(signature, grads, inputs, mask):
    """The gradients of `inputs` (one an operand, None where none is needed), given those of the outputs.

    Runs under an active tracer; arguments and results are traced tensors. Bit i of `mask` asks for operand i.
    """
    tracer, operation = trace.current(), signature.operation
    start = len(tracer.nodes)
    result = operation.compute(**plans.assemble(operation, inputs, signature.attrs))
    results = result if isinstance(result, tuple) else (result,)
    wanted = [x for i, x in enumerate(inputs) if (mask >> i) & 1]
    total = backward(steps_of(tracer, start), list(zip(results, grads)), wanted)
    return tuple(total.get(x.value.name) if (mask >> i) & 1 else None for i, x in enumerate(inputs))


def steps_of(tracer, start):
    """The nodes traced since `start`, those of a composite with its own derivative taken together."""
    spans = {first: (last, step) for first, last, step in tracer.spans if first >= start and last > first}
    steps, at = [], start
    while at < len(tracer.nodes):
        if at in spans:
            at, (operation, operands, attrs, outputs) = spans[at]
            steps.append(Step(operation, operands, attrs, outputs))
            continue
        node = tracer.nodes[at]
        steps.append(Step(REGISTRY[node.op], [_operand(tracer, i) for i in node.inputs], dict(node.attrs),
                          [_operand(tracer, o) for o in node.outputs]))
        at += 1
    return steps


def _operand(tracer, value):
    return value.value if isinstance(value, Literal) else trace.Traced.make(tracer, value)


def backward(steps, seeds, wanted):
    """name -> gradient of every value between the seeds, (result, gradient) pairs, and the wanted tensors."""
    live = {x.value.name for x in wanted}
    for step in steps:
        if any(_name(o) in live for o in step.operands):
            live.update(o.value.name for o in step.outputs)
    total = {}
    for result, grad in seeds:
        _accumulate(total, result, grad, live)
    for step in reversed(steps):
        received = [total.get(o.value.name) for o in step.outputs]
        if any(g is not None for g in received) and step.operation.differentiable:
            for operand, grad in zip(step.operands, _derivative(step, received)):
                if grad is not None:
                    _accumulate(total, operand, grad, live)
    return total


def _derivative(step, received):
    from flambeau.ops.elementwise import full_like
    grads = [full_like(o, 0) if g is None else g for g, o in zip(received, step.outputs)]
    results = derive.call_derivative(step.operation, grads, step.outputs, step.operands, step.attrs)
    return results if isinstance(results, tuple) else (results,)


def _name(operand):
    return operand.value.name if isinstance(operand, Tensor) and isinstance(operand.value, Value) else None


def _accumulate(total, target, grad, live):
    """Add to the gradient of a traced tensor, in its dtype and shape; floating point tensors only."""
    name = _name(target)
    if name not in live or target.dtype.kind != "f":
        return
    if grad.dtype is not target.dtype:
        from flambeau.ops.elementwise import cast
        grad = cast(grad, target.dtype)
    if tuple(grad.shape) != tuple(target.shape):
        grad = derive.sum_to(grad, target)
    total[name] = grad if name not in total else total[name] + grad
