"""Gradients checked against finite differences.

A complex number counts as two real ones: with PyTorch's convention the gradient of a complex input is the
gradient with respect to its real part plus i times that with respect to its imaginary part, so the Jacobians
compared here are real. Names and arguments are those of `torch.autograd.gradcheck`.
"""

import warnings

from flambeau.base.errors import message
from flambeau.base.source import user_source
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import grad
from flambeau.transform.functional import jvp, vjp

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative that differs from the finite difference, or cannot be computed."""


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True,
              fast_mode=False, masked=None):
    """True if the derivatives of `func` are those that central differences give; else GradcheckError is
    raised.

    A derivative passes if it lies within `atol + rtol * |finite difference|`.

    Args:
        func: takes the inputs, returns a tensor or a tuple of them.
        inputs: a tensor or a tuple; those that require grad are checked. float64 and complex128 only are
        exact enough.
        eps: the step of the differences.
        raise_exception: False: return False instead of raising.
        nondet_tol: how far two backward passes with the same values may be apart.
        check_undefined_grad: also run backward from each output alone, and from a gradient of zeros.
        check_grad_dtypes: gradients must have the dtype and the device of their inputs.
        check_batched_grad, check_batched_forward_grad: the derivatives under `vmap` too.
        check_forward_ad, check_backward_ad: which modes are checked.
        fast_mode: compare random projections of the Jacobians: two calls an input instead of two an element.
        masked: for PyTorch's sake: the stored values of sparse inputs are the variables, whatever it is.

    Source: Griewank and Walther, "Evaluating Derivatives" (2008), chapter 1; names are those of
    `torch.autograd`.

    >>> x = fl.randn(3, dtype=fl.float64, requires_grad=True)
    >>> fl.autograd.gradcheck(fl.sin, x)
    True
    >>> fl.autograd.gradcheck(lambda x: x.detach() * x, x, raise_exception=False)
    False
    """
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError("[gradcheck] one of check_forward_ad and check_backward_ad must be on")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("[gradcheck] check_batched_grad needs check_backward_ad=True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("[gradcheck] check_batched_forward_grad needs check_forward_ad=True")
    check = _Check(func, inputs, eps, atol, rtol)
    try:
        check.run(fast_mode, check_backward_ad, check_forward_ad, nondet_tol, check_undefined_grad,
                  check_grad_dtypes)
        if check_batched_grad:
            check.batched_backward()
        if check_batched_forward_grad:
            check.batched_forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
                  check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True,
                  fast_mode=False, masked=False):
    """True if the derivatives of the gradient of `func` are right, with respect to the inputs and to the
    gradients of the outputs; else GradcheckError is raised.

    Args:
        grad_outputs: gradients of the outputs; drawn at random if not given.
        gen_non_contig_grad_outputs: draw them with strides that are not contiguous.
        check_fwd_over_rev, check_rev_over_rev: the mode of the second derivative.
        Others as of `gradcheck`.

    >>> x = fl.randn(3, dtype=fl.float64, requires_grad=True)
    >>> fl.autograd.gradgradcheck(lambda x: x ** 3, x)
    True
    """
    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError("[gradgradcheck] one of check_fwd_over_rev and check_rev_over_rev must be on")
    func, given = _over_values(func, _as_tuple(inputs))
    outputs = _differentiable(func(*given))
    if not outputs:
        raise GradcheckError(message("gradgradcheck", "no output of func requires grad",
                                     hint="something detaches them", source=user_source(1)))
    if grad_outputs is None:
        seeds = tuple(_random_like(out, gen_non_contig_grad_outputs) for out in outputs)
    else:
        seeds = tuple(g.detach().requires_grad_(True) if not g.requires_grad else g
                      for g in _as_tuple(grad_outputs))
    places = [i for i, x in enumerate(given) if _wanted(x)]

    def gradients(*arguments):
        values, cotangents = arguments[:len(given)], arguments[len(given):]
        values = tuple(_on_tape(v) if i in places else v for i, v in enumerate(values))
        found = grad(_differentiable(func(*values)), [values[i] for i in places], list(cotangents),
                     create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    def gradients_by_level(*arguments):
        values, cotangents = arguments[:len(given)], arguments[len(given):]

        def chosen(*picked):
            row = list(values)
            for place, value in zip(places, picked):
                row[place] = value
            made = _as_tuple(func(*row))
            return tuple(made[j] for j in kept)
        return vjp(chosen, *[values[i] for i in places])[1](tuple(cotangents))

    kept = [j for j, out in enumerate(_as_tuple(func(*given))) if _wanted(out)]
    common = dict(eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                  check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
                  fast_mode=fast_mode, masked=masked)
    arguments = (*given, *seeds)
    good = not check_rev_over_rev or gradcheck(gradients, arguments, **common)
    if good and (check_fwd_over_rev or check_batched_grad):
        good = gradcheck(gradients_by_level, arguments, check_forward_ad=check_fwd_over_rev,
                         check_backward_ad=check_batched_grad, check_batched_grad=check_batched_grad,
                         **common)
    return good


# ---------------------------------------------------------------------------------- values as real numbers
def _as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _wanted(value):
    return isinstance(value, Tensor) and value.requires_grad


def _on_tape(value):
    """The value itself, or with a gradient wanted: finite differences give tensors off the tape."""
    return value if value.requires_grad else value.detach().requires_grad_(True)


def _differentiable(outputs):
    return [out for out in _as_tuple(outputs) if _wanted(out)]


def _sparse(tensor):
    return str(tensor.layout).rpartition(".")[2] != "strided"


def _reals(tensor):
    """The elements of a tensor as a flat float64 array, complex numbers as pairs."""
    import numpy
    tensor = tensor.detach()
    if _sparse(tensor):
        tensor = tensor.to_dense()
    values = tensor.resolve_conj().numpy() if tensor.is_complex() else tensor.double().numpy()
    values = numpy.ascontiguousarray(values.astype("complex128" if tensor.is_complex() else "float64"))
    return values.reshape(-1).view("float64").copy()


def _from_reals(values, like):
    """A tensor of the shape and dtype of `like` with these elements, off the tape."""
    from flambeau.tensor.create import from_numpy
    array = values.view("complex128") if like.is_complex() else values
    return from_numpy(array.reshape(tuple(like.shape)).copy()).to(like.dtype)


def _random_like(tensor, scattered=False):
    import numpy
    count = tensor.numel() * (2 if tensor.is_complex() else 1)
    made = _from_reals(numpy.random.default_rng(count).standard_normal(count), tensor)
    if scattered and made.ndim:
        from flambeau.ops.join import stack
        made = stack([made, made], -1)[..., 0]
    return made.detach().requires_grad_(True)


def _over_values(func, inputs):
    """(func, inputs) where each sparse input that requires grad is replaced by its stored values."""
    from flambeau.tensor.sparse_door import sparse_compressed_tensor, sparse_coo_tensor
    rebuild, given = {}, list(inputs)
    for i, x in enumerate(inputs):
        if not _wanted(x) or not _sparse(x):
            continue
        x = x.detach()
        layout = str(x.layout).rpartition(".")[2]
        if layout == "sparse_coo":
            x = x.coalesce()
            rebuild[i] = lambda values, x=x: sparse_coo_tensor(x.indices(), values, tuple(x.shape),
                                                               is_coalesced=True)
        else:
            by_row = layout in ("sparse_csr", "sparse_bsr")
            places = (x.crow_indices(), x.col_indices()) if by_row else (x.ccol_indices(), x.row_indices())
            rebuild[i] = lambda values, x=x, places=places: sparse_compressed_tensor(*places, values,
                                                                                     tuple(x.shape),
                                                                                     layout=x.layout)
        given[i] = x.values().detach().clone().requires_grad_(True)

    def over_values(*arguments):
        return func(*[rebuild[i](x) if i in rebuild else x for i, x in enumerate(arguments)])
    return (over_values if rebuild else func), tuple(given)


class _Variable:
    """One input that is checked, by its real coordinates."""

    def __init__(self, tensor):
        self.like = tensor.detach()
        self.start = _reals(tensor)
        self.coordinates = range(self.start.size)

    def at(self, values):
        """The input with these coordinates, a leaf that requires grad."""
        return _from_reals(values, self.like).requires_grad_(True)

    def gradient(self, found):
        """A gradient of this input as an array over its coordinates."""
        import numpy
        return numpy.zeros_like(self.start) if found is None else _reals(found)


# ---------------------------------------------------------------------------------- the check
class _Check:
    """One call of gradcheck: Jacobians by finite differences and by the modes, and their comparison."""

    def __init__(self, func, inputs, eps, atol, rtol):
        self.func, self.inputs = _over_values(func, _as_tuple(inputs))
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.numbers = [i for i, x in enumerate(self.inputs) if _wanted(x)]
        if not self.numbers:
            raise ValueError("[gradcheck] gradcheck expects at least one input tensor to require gradient, "
                             "but none of the "
                             "them have requires_grad=True\n  hint: x.requires_grad_(True)")
        for i in self.numbers:
            if self.inputs[i].dtype.name not in ("float64", "complex128"):
                warnings.warn(f"[gradcheck] input {i} is {self.inputs[i].dtype}: differences are too rough "
                              "below double precision, the check will likely fail; use float64 or "
                              "complex128",
                              stacklevel=4)
        self.variables = {i: _Variable(self.inputs[i]) for i in self.numbers}
        self.outputs = self.call(self.inputs)
        self.kept = [j for j, out in enumerate(self.outputs) if _wanted(out)]

    def call(self, inputs):
        return _as_tuple(self.func(*inputs))

    def fail(self, problem, got=None, want=None, hint=None):
        raise GradcheckError(message("gradcheck", problem, got, want, hint, user_source(2)))

    def run(self, fast, backward, forward, nondet_tol, zero_gradient, dtypes):
        if not self.kept:
            return self.expect_zeros()
        if backward:
            self.attributes(dtypes)
            self.repeatable(nondet_tol)
            if zero_gradient:
                self.zero_gradient()
        modes = [name for name, on in (("backward", backward), ("forward", forward)) if on]
        (self.compare_projections if fast else self.compare_jacobians)(modes)

    # ---- finite differences
    def moved(self, i, values):
        """The outputs that are checked, as arrays, where input i has other values."""
        inputs = list(self.inputs)
        for k in self.numbers:
            inputs[k] = self.variables[k].at(values if k == i else self.variables[k].start)
        outputs = self.call(inputs)
        return [_reals(outputs[j]) for j in (self.kept or range(len(outputs)))
                if isinstance(outputs[j], Tensor)
                and outputs[j].dtype.kind in "fc"]

    def difference(self, i, direction):
        """The derivative of each output in a direction of input i: central differences."""
        start = self.variables[i].start
        after, before = self.moved(i, start + self.eps * direction), self.moved(i,
                                                                                start - self.eps * direction)
        return [(a - b) / (2 * self.eps) for a, b in zip(after, before)]

    def numerical(self, i):
        """The Jacobian of each output by input i: arrays (outputs, inputs)."""
        import numpy
        start = self.variables[i].start
        sizes = [_reals(self.outputs[j]).size for j in self.kept]
        jacobians = [numpy.zeros((size, start.size)) for size in sizes]
        for k in self.variables[i].coordinates:
            direction = numpy.zeros_like(start)
            direction[k] = 1
            for jacobian, column in zip(jacobians, self.difference(i, direction)):
                jacobian[:, k] = column
        return jacobians

    def expect_zeros(self):
        """Without an output on the tape, no output may depend on the inputs."""
        import numpy
        for i in self.numbers:
            for k in self.variables[i].coordinates:
                direction = numpy.zeros_like(self.variables[i].start)
                direction[k] = 1
                for j, column in enumerate(self.difference(i, direction)):
                    if (numpy.abs(column) > self.atol).any():
                        self.fail(f"no output requires grad, but output {j} depends on input {i}: Numerical "
                                  "gradient for function expected to be zero",
                                  f"{column[numpy.abs(column).argmax()]:.6g}",
                                  hint="something detaches: item(), numpy(), detach(), no_grad() or a "
                                       "conversion to integers")

    # ---- derivatives by the modes
    def cotangent(self, j, values):
        out = self.outputs[j]
        return _from_reals(values, out)

    def pull(self, j, cotangent):
        """The gradients of the inputs for a gradient of output j."""
        return grad([self.outputs[j]], [self.inputs[i] for i in self.numbers], [cotangent], retain_graph=True,
                    allow_unused=True)

    def push(self, i, direction):
        """The tangents of the outputs, as arrays, for a direction of input i."""
        import numpy
        variable = self.variables[i]

        def chosen(x):
            inputs = [x if k == i else y.detach() if isinstance(y, Tensor) else y
                      for k, y in enumerate(self.inputs)]
            outputs = self.call(inputs)
            return tuple(outputs[j] for j in self.kept)
        try:
            _, tangents = jvp(chosen, (variable.like,), (_from_reals(direction, variable.like),))
        except NotImplementedError as error:
            self.fail(f"forward mode fails for input {i}", f"{type(error).__name__}: {error}")
        return [_reals(t) if t is not None else numpy.zeros(0) for t in tangents]

    def analytical(self, mode):
        """{(i, position in kept): Jacobian} by one mode."""
        import numpy
        found = {}
        for n, j in enumerate(self.kept):
            count = _reals(self.outputs[j]).size
            for i in self.numbers:
                found[i, n] = numpy.zeros((count, self.variables[i].start.size))
            for k in range(count) if mode == "backward" else ():
                seed = numpy.zeros(count)
                seed[k] = 1
                for i, gradient in zip(self.numbers, self.pull(j, self.cotangent(j, seed))):
                    found[i, n][k] = self.variables[i].gradient(gradient)
        if mode == "forward":
            for i in self.numbers:
                for k in self.variables[i].coordinates:
                    direction = numpy.zeros_like(self.variables[i].start)
                    direction[k] = 1
                    for n, column in enumerate(self.push(i, direction)):
                        found[i, n][:, k] = column
        return found

    # ---- comparisons
    def compare_jacobians(self, modes):
        by_mode = {mode: self.analytical(mode) for mode in modes}
        for i in self.numbers:
            for n, numerical in enumerate(self.numerical(i)):
                for mode, found in by_mode.items():
                    if not _close(found[i, n], numerical, self.atol, self.rtol).all():
                        self.mismatch(i, n, mode, found[i, n], numerical)

    def mismatch(self, i, n, mode, analytical, numerical):
        """Raise, naming the worst entry of the Jacobian."""
        import numpy
        wrong = ~_close(analytical, numerical, self.atol, self.rtol)
        distance = numpy.abs(analytical - numerical)
        distance[numpy.isnan(distance)] = numpy.inf
        row, column = numpy.unravel_index(numpy.where(wrong, distance, -1).argmax(), wrong.shape)
        out, x = self.outputs[self.kept[n]], self.inputs[i]
        text = (f"Jacobian mismatch for output {self.kept[n]} with respect to input {i} ({mode} mode)\n"
                f"  d output{_place(row, out)} / d input{_place(column, x)}: numerical "
                f"{numerical[row, column]:.9g}, analytical {analytical[row, column]:.9g}\n"
                f"  {int(wrong.sum())} of {wrong.size} entries differ by more than atol={self.atol:g} + "
                f"rtol={self.rtol:g} * |numerical|")
        self.fail(text, hint=self.reason(analytical, numerical))

    def reason(self, analytical, numerical):
        """What the difference looks like."""
        import numpy
        start = {k: variable.start for k, variable in self.variables.items()}
        first, second = (self.moved(self.numbers[0], start[self.numbers[0]]) for _ in range(2))
        if any(not numpy.array_equal(a, b, equal_nan=True) for a, b in zip(first, second)):
            return "func gives different outputs for the same inputs: fix its random numbers"
        if not numpy.isfinite(analytical).all() or not numpy.isfinite(numerical).all():
            return "some values are not finite: is the input at the edge of the function's domain?"
        if not analytical.any():
            return "the analytical derivative is zero: something detaches the output from this input"
        if numpy.allclose(analytical, -numerical, self.rtol, self.atol):
            return "the sign is wrong"
        ratio = (analytical * numerical).sum() / max((numerical * numerical).sum(), 1e-300)
        if numpy.allclose(analytical, ratio * numerical, self.rtol, self.atol):
            return f"the analytical derivative is {ratio:.6g} times the numerical one throughout"
        if analytical.shape[0] == analytical.shape[1] and numpy.allclose(analytical, numerical.T, self.rtol,
                                                                         self.atol):
            return "the analytical Jacobian is the transpose of the numerical one"
        return "a kink within eps of the input (relu, abs, max, rounding) spoils the differences too: move it"

    def compare_projections(self, modes):
        import numpy
        rng = numpy.random.default_rng(0)
        seeds = [_unit(rng, _reals(self.outputs[j]).size) for j in self.kept]
        directions = {i: _unit(rng, self.variables[i].start.size) for i in self.numbers}
        pulled = {}
        for n, j in enumerate(self.kept) if "backward" in modes else ():
            for i, gradient in zip(self.numbers, self.pull(j, self.cotangent(j, seeds[n]))):
                pulled[i, n] = float(self.variables[i].gradient(gradient) @ directions[i])
        for i in self.numbers:
            differences = self.difference(i, directions[i])
            tangents = self.push(i, directions[i]) if "forward" in modes else None
            for n, column in enumerate(differences):
                numerical = float(column @ seeds[n])
                atol = self.atol * max(numpy.abs(directions[i]).sum() * numpy.abs(seeds[n]).sum(), 1)
                if "backward" in modes and not _close(pulled[i, n], numerical, atol, self.rtol):
                    self.projection_failed("backward", i, n, pulled[i, n], numerical)
                if tangents is not None and not _close(tangents[n] @ seeds[n], numerical, atol, self.rtol):
                    self.projection_failed("forward", i, n, float(tangents[n] @ seeds[n]), numerical)

    def projection_failed(self, mode, i, n, analytical, numerical):
        """The whole Jacobians say where."""
        self.compare_jacobians([mode])
        self.fail(f"Jacobian mismatch for output {self.kept[n]} with respect to input {i} ({mode} mode, "
                  f"random projection): numerical {numerical:.9g}, analytical {analytical:.9g}; every "
                  "single entry is within the tolerance", hint="fast_mode=False compares entry by entry")

    # ---- other properties of a backward pass
    def attributes(self, dtypes):
        for j in self.kept:
            for i, gradient in zip(self.numbers, self.pull(j, _ones(self.outputs[j]))):
                x = self.inputs[i]
                if gradient is None:
                    continue
                if tuple(gradient.shape) != tuple(x.shape):
                    self.fail(f"the gradient of input {i} has another shape than the input",
                              tuple(gradient.shape), tuple(x.shape))
                if dtypes and (gradient.dtype != x.dtype or gradient.device != x.device):
                    self.fail(f"the gradient of input {i} has another dtype or device than the input",
                              f"{gradient.dtype} on {gradient.device}", f"{x.dtype} on {x.device}")

    def repeatable(self, tolerance):
        import numpy
        for j in self.kept:
            seed = _ones(self.outputs[j])
            for i, first, second in zip(self.numbers, self.pull(j, seed), self.pull(j, seed)):
                a, b = self.variables[i].gradient(first), self.variables[i].gradient(second)
                distance = float(numpy.nan_to_num(numpy.abs(a - b)).max()) if a.size else 0.0
                if distance > tolerance:
                    self.fail("Backward is not reentrant, i.e., running backward with same input and "
                              "grad_output multiple times gives different values: the gradient of input "
                              f"{i} differs",
                              f"{distance:.6g}", f"at most {tolerance:g} (nondet_tol)")

    def zero_gradient(self):
        for j in self.kept:
            for i, gradient in zip(self.numbers, self.pull(j, _ones(self.outputs[j]) * 0)):
                values = self.variables[i].gradient(gradient)
                if values.any() and values[values == values].any():
                    self.fail(f"backward not multiplied by grad_output: the gradient of input {i} is not "
                              f"zero where that of output {j} is", f"{values[values != 0][0]:.6g}", 0)

    # ---- vmap
    def batched_backward(self):
        """vmap over gradients of the outputs = one after the other."""
        from flambeau.ops.join import stack
        from flambeau.transform.batch import vmap
        for n, j in enumerate(self.kept):
            def chosen(*values, n=j):
                row = list(self.inputs)
                for i, value in zip(self.numbers, values):
                    row[i] = value
                return self.call(row)[n]
            seeds = [_random_like(self.outputs[j]).detach(), _ones(self.outputs[j])]
            try:
                _, pull = vjp(chosen, *[self.inputs[i].detach() for i in self.numbers])
                batched = vmap(pull)(stack(seeds))
            except Exception as error:
                self.fail(f"the backward pass of output {j} fails under vmap", f"{type(error).__name__}: "
                                                                               f"{error}",
                          hint="check_batched_grad=False leaves this check out")
            for b, seed in enumerate(seeds):
                for i, gradient, all_gradients in zip(self.numbers, self.pull(j, seed), batched):
                    self.same_batch("gradient", i, j, b, self.variables[i].gradient(gradient),
                                    _reals(all_gradients[b]))

    def batched_forward(self):
        """vmap over directions of the inputs = one after the other."""
        from flambeau.ops.join import stack
        from flambeau.transform.batch import vmap
        for i in self.numbers:
            x = self.inputs[i].detach()

            def push(direction, i=i, x=x):
                def chosen(value):
                    outputs = self.call([value if k == i else y for k, y in enumerate(self.inputs)])
                    return tuple(outputs[j] for j in self.kept)
                return jvp(chosen, (x,), (direction,))[1]
            directions = [_random_like(x).detach(), _ones(x)]
            try:
                batched = vmap(push)(stack(directions))
            except Exception as error:
                self.fail(f"forward mode fails under vmap for input {i}", f"{type(error).__name__}: {error}",
                          hint="check_batched_forward_grad=False leaves this check out")
            for b, direction in enumerate(directions):
                for n, tangent in enumerate(self.push(i, _reals(direction))):
                    self.same_batch("tangent", i, self.kept[n], b, tangent, _reals(batched[n][b]))

    def same_batch(self, what, i, j, b, single, batched):
        if not _close(batched, single, self.atol, self.rtol).all():
            self.fail(f"the {what} for input {i} and output {j} under vmap differs from the one alone, "
                      f"example {b}", batched[:4], single[:4])


def _close(value, wanted, atol, rtol):
    import numpy
    with numpy.errstate(invalid="ignore"):
        return (value == wanted) | (numpy.abs(value - wanted) <= atol + rtol * numpy.abs(wanted))


def _unit(rng, count):
    import numpy
    values = rng.standard_normal(count)
    return values / max(numpy.linalg.norm(values), 1e-300)


def _ones(tensor):
    from flambeau.tensor.create import ones_like
    return ones_like(tensor.detach())


def _place(number, tensor):
    """The index of a real coordinate in a tensor, as text."""
    import numpy
    part = ""
    if tensor.is_complex():
        number, part = number // 2, (".real", ".imag")[number % 2]
    at = tuple(int(k) for k in numpy.unravel_index(number, tuple(tensor.shape))) if tensor.ndim else ()
    return f"[{', '.join(map(str, at))}]{part}" if at else part
