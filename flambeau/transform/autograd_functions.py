"""`autograd.functional`: derivatives of functions of tensors as matrices and products, by transforms.

Inputs are tensors or tuples of them; with `create_graph` the results stay on the tape of inputs that require gradients.
With `strict` an output or result that does not depend on an input is an error instead of zeros.
"""

from flambeau.base.errors import fail
from flambeau.ops.elementwise import full_like
from flambeau.ops.join import stack
from flambeau.ops.view import reshape
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.transform import functional
from flambeau.transform.batch import vmap
from flambeau.transform.forward import ForwardLevel
from flambeau.transform.levels import below
from flambeau.transform.reverse import ReverseLevel

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(value, name, what):
    """(the tensors, True if it was a tuple)."""
    single = isinstance(value, Tensor)
    given = (value,) if single else value
    if not isinstance(given, tuple) or not all(isinstance(t, Tensor) for t in given):
        fail(name, f"{what} must be a Tensor or a tuple of Tensors", type(value).__name__, kind=TypeError)
    return given, not single


def _inputs_of(inputs, name, create_graph):
    given, several = _as_tuple(inputs, name, "the inputs")
    return tuple(t if create_graph else t.detach() for t in given), several


def _direction(v, like, name, what):
    """The vector of a product: of the shapes of `like`; None for ones where that is one number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            fail(name, f"v can be left out only if {what} is one number", [tuple(t.shape) for t in like])
        return (full_like(like[0], 1),)
    v, _ = _as_tuple(v, name, "v")
    if len(v) != len(like):
        fail(name, f"v has another number of tensors than {what}", len(v), len(like))
    for number, (a, b) in enumerate(zip(v, like)):
        if tuple(a.shape) != tuple(b.shape):
            fail(name, f"tensor {number} of v does not have the shape of {what}", tuple(a.shape), tuple(b.shape))
    return v


def _back(results, several, create_graph):
    results = tuple(r if create_graph else r.detach() for r in results)
    return results if several else results[0]


class _Pulled:
    """A function run with its inputs recorded: `outputs`, and `pull(seeds)` for gradients (zeros where there are none)."""

    def __init__(self, name, func, inputs, strict):
        self.name, self.strict = name, strict
        with ReverseLevel() as self.level, functional._Recording():
            recorded = tuple(map(self.level.input, inputs))
            self.starts = [r.node for r in recorded]
            self.recorded, self.several = _as_tuple(func(*recorded), name, "the outputs")
            self.outputs = tuple(below(self.level, o) for o in self.recorded)
            if strict:
                for number, output in enumerate(self.recorded):
                    self.check(None if self.level.source(output) is None else output, number)

    def check(self, found, output, input=None):
        if self.strict and found is None:
            what = "all inputs" if input is None else f"input {input}"
            fail(self.name, f"output {output} of the function is independent of {what}, which strict=True does not allow")

    def pull(self, seeds):
        with functional._Recording():
            found = self.level.gradients(self.recorded, seeds, self.starts)
        for number, grad in enumerate(found):
            self.check(grad, next((i for i, s in enumerate(seeds) if s is not None), 0), number)
        return tuple(full_like(s.results[0], 0) if g is None else g for g, s in zip(found, self.starts))


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, v times the Jacobian of `func`): a tensor for each input."""
    given, several = _inputs_of(inputs, "vjp", create_graph)
    run = _Pulled("vjp", func, given, strict)
    found = run.pull(_direction(v, run.outputs, "vjp", "the output"))
    return _back(run.outputs, run.several, create_graph), _back(found, several, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, the Jacobian of `func` times v): a tensor for each output."""
    given, _ = _inputs_of(inputs, "jvp", create_graph)
    v = _direction(v, given, "jvp", "the input")
    with ForwardLevel() as level, functional._Recording():
        outputs, several = _as_tuple(func(*map(level.dual, given, v)), "jvp", "the outputs")
        tangents = [level.tangent_of(o) for o in outputs]
        values = [below(level, o) for o in outputs]
    if strict and any(t is None for t in tangents):
        fail("jvp", f"output {[t is None for t in tangents].index(True)} of the function is independent of all inputs, which "
             "strict=True does not allow")
    tangents = [full_like(o, 0) if t is None else t for t, o in zip(tangents, values)]
    return _back(values, several, create_graph), _back(tangents, several, create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of `func`: for each output and input a tensor of the output's shape followed by the input's.

    Args:
        vectorize: all rows (strategy 'reverse-mode') or columns ('forward-mode') at once, by vmap.

    >>> fl.autograd.functional.jacobian(lambda x: x * x, fl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        fail("jacobian", "unknown strategy", repr(strategy), "'reverse-mode' or 'forward-mode'", kind=ValueError)
    if strategy == "forward-mode" and create_graph:
        fail("jacobian", "create_graph=True does not go with strategy='forward-mode'", hint="use func.jacfwd",
             kind=NotImplementedError)
    if strict and vectorize:
        fail("jacobian", "strict=True does not go with vectorize=True")
    if strategy == "forward-mode" and not vectorize:
        fail("jacobian", "strategy='forward-mode' needs vectorize=True", kind=NotImplementedError)
    given, several = _inputs_of(inputs, "jacobian", create_graph)
    if strategy == "forward-mode":
        made, several_outputs = _by_columns(func, given)
    else:
        made, several_outputs = _by_rows(func, given, strict, vectorize)
    if strict and create_graph:
        _check_on_tape("jacobian", made)
    made = tuple(_back(row, several, create_graph) for row in made)
    return made if several_outputs else made[0]


def _check_on_tape(name, made):
    for i, row in enumerate(made):
        for j, part in enumerate(row):
            if not part.requires_grad:
                fail(name, f"the derivative of output {i} is independent of input {j}, which strict=True does not allow")


def _by_columns(func, given):
    kinds = []

    def outputs(*xs):
        found, several = _as_tuple(func(*xs), "jacobian", "the outputs")
        kinds.append(several)
        return found

    return functional.jacfwd(outputs, tuple(range(len(given))))(*given), kinds[0]


def _by_rows(func, given, strict, vectorize):
    run = _Pulled("jacobian", func, given, strict)
    rows = []
    for place, output in enumerate(run.outputs):
        def one(seed, place=place):
            return run.pull([seed if i == place else None for i in range(len(run.outputs))])

        count = output.numel()
        basis = functional._basis(output)
        if vectorize and count:
            found = vmap(one)(basis)
        else:
            each = [one(basis[i]) for i in range(count)]
            found = [stack([e[j] for e in each]) if each else x.new_zeros((0, *x.shape)) for j, x in enumerate(given)]
        rows.append([reshape(f, (*output.shape, *x.shape)) for f, x in zip(found, given)])
    return rows, run.several


def _scalar(func, name):
    """`func` with its one output as a tensor without axes."""
    def checked(*inputs):
        outputs, several = _as_tuple(func(*inputs), name, "the output")
        if several or outputs[0].numel() != 1:
            fail(name, "the function must return one number", [tuple(o.shape) for o in outputs])
        return reshape(outputs[0], ())
    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function that gives one number: for each pair of inputs a tensor."""
    given, several = _inputs_of(inputs, "hessian", create_graph)
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        fail("hessian", "unknown strategy", repr(outer_jacobian_strategy), "'reverse-mode' or 'forward-mode'", kind=ValueError)
    scalar = _scalar(func, "hessian")

    def gradient(*xs):
        run = _Pulled("hessian", scalar, xs, strict)
        return run.pull([full_like(run.outputs[0], 1)])

    made = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return made if several else made[0][0]


def _gradient_of(name, func, strict):
    def gradient(*xs):
        run = _Pulled(name, _scalar(func, name), xs, strict)
        gradient.output = run.outputs[0]
        return run.pull([full_like(run.outputs[0], 1)])
    return gradient


def _value(name, func, given):
    """The output of a function, checked to be one number."""
    before = _core.set_grad_mode(_core.grad_mode() and any(g.requires_grad for g in given))
    try:
        output = func(*given)
        _scalar(lambda *xs: output, name)(*given)
        return output
    finally:
        _core.set_grad_mode(before)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, v times the Hessian of `func`), which gives one number: reverse over reverse mode."""
    given, several = _inputs_of(inputs, "vhp", create_graph)
    v = _direction(v, given, "vhp", "the input")
    output = _value("vhp", func, given)
    run = _Pulled("vhp", _gradient_of("vhp", func, strict), given, strict)
    return _back((output,), False, create_graph), _back(run.pull(v), several, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, the Hessian of `func` times v): the same number as `vhp`, which is quicker, for smooth functions."""
    given, several = _inputs_of(inputs, "hvp", create_graph)
    v = _direction(v, given, "hvp", "the input")
    output = _value("hvp", func, given)
    _, found = jvp(_gradient_of("hvp", func, strict), given, v, create_graph, strict)
    return _back((output,), False, create_graph), _back(found, several, create_graph)
