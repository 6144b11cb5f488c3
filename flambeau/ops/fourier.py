"""Fourier transforms (pocketfft on the host, NumPy's or SciPy's) and the functions of `flambeau.fft`.

One op does them all: `kind` says what goes in and out ("c2c", "r2c": one-sided, "c2r": from a one-sided
spectrum). A transform is linear, so its derivative is its adjoint, and the derivative of that is the
transform again: one more attribute.
"""

from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule, optional
from flambeau.ops.elementwise import cast
from flambeau.ops.interpose import visible
from flambeau.ops.join import cat
from flambeau.ops.kinds import Opaque
from flambeau.ops.out import with_out
from flambeau.ops.spec import op
from flambeau.ops.view import narrow
from flambeau.runtime._core import get_num_threads
from flambeau.types.device import placed
from flambeau.types.dtype import category, complex64, complex128, float32, float64, get_default_dtype
from flambeau.types.shape import normalize_axes

numpy = LazyModule("numpy")
REVERSED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
COMPLEX = {float32: complex64, float64: complex128, complex64: complex64, complex128: complex128}
REAL = {float32: float32, float64: float64, complex64: float32, complex128: float64}
LARGE = 1 << 16                 # elements from which SciPy's transforms repay its import (some 0.3 s)


# ------------------------------------------------------------------------------ on NumPy arrays
def transformed(x, kind, dims, sizes, norm, inverse):
    """The transform of x, cut or filled up with zeros to `sizes` along `dims`."""
    if x.size >= LARGE and (scipy_fft := optional("scipy.fft")) is not None:
        with scipy_fft.set_workers(get_num_threads()):
            return _by_kind(scipy_fft, x, kind, dims, sizes, norm, inverse)
    return _by_kind(numpy.fft, x, kind, dims, sizes, norm, inverse)


def _by_kind(fft, x, kind, dims, sizes, norm, inverse):
    """`transformed` by a library: NumPy's or SciPy's, which shares the rows out among threads."""
    if kind == "c2c":
        return (fft.ifftn if inverse else fft.fftn)(x, sizes, dims, norm)
    if kind == "r2c":
        spectrum = fft.rfftn(x, sizes, dims, REVERSED[norm] if inverse else norm)
        return spectrum.conj() if inverse else spectrum
    return fft.irfftn(x, sizes, dims, norm) if inverse else fft.irfftn(x.conj(), sizes, dims, REVERSED[norm])


def adjoint_of(g, kind, dims, sizes, norm, inverse):
    """The adjoint of `transformed`, before cutting: a transform the other way with the same factor."""
    back = REVERSED[norm]
    if kind == "c2r":
        spectrum = transformed(g, "r2c", dims, sizes, back, not inverse)
        weights, last = numpy.full(spectrum.shape[dims[-1]], 2.0, g.dtype), sizes[-1]
        weights[0] = 1
        if last % 2 == 0:
            weights[-1] = 1
        return spectrum * weights.reshape([-1 if a == dims[-1] else 1 for a in range(spectrum.ndim)])
    if kind == "r2c":
        g = resized(g, {dims[-1]: sizes[-1]})
    return transformed(g, "c2c", dims, sizes, back, not inverse)


def resized(x, sizes):
    """x cut or filled up with zeros to the given sizes."""
    for axis, size in sizes.items():
        if x.shape[axis] > size:
            x = x.take(range(size), axis)
        elif x.shape[axis] < size:
            x = numpy.pad(x, [(0, size - x.shape[a] if a == axis else 0) for a in range(x.ndim)])
    return x


@op
class Fourier(Opaque):
    """A discrete Fourier transform along `dims`, or its adjoint, whose result has the sizes `kept` there."""

    name = "_fourier"
    signature = "x, kind, dims, sizes, norm, inverse, kept, real=False, adjoint=False"
    operands = ("x",)

    def infer(self, inputs, attrs):
        shape, dtype = list(inputs[0].shape), inputs[0].dtype
        kind, dims, sizes, adjoint = (attrs[n] for n in ("kind", "dims", "sizes", "adjoint"))
        for axis, size, kept in zip(dims, sizes, attrs["kept"]):
            shape[axis] = kept if adjoint else size
        if kind == "r2c" and not adjoint:
            shape[dims[-1]] = sizes[-1] // 2 + 1
        real = (attrs["real"] or kind == "r2c") if adjoint else kind == "c2r"
        return [((REAL if real else COMPLEX)[dtype], tuple(shape))]

    def host(x, kind, dims, sizes, norm, inverse, kept, real, adjoint):
        if not adjoint:
            return transformed(x, kind, dims, sizes, norm, inverse)
        result = resized(adjoint_of(x, kind, dims, sizes, norm, inverse), dict(zip(dims, kept)))
        return result.real if real or kind == "r2c" else result

    def derivative(grad, x, *, kind, dims, sizes, norm, inverse, kept, real, adjoint):
        return _fourier(grad, kind, dims, sizes, norm, inverse, kept, real, not adjoint)        # noqa: F821


# ------------------------------------------------------------------------------ arguments
@visible
def fourier_transform(name, x, kind, s, dims, norm, inverse):
    """Check the arguments and transform."""
    if norm not in REVERSED:
        fail(name, "invalid normalization mode", norm, "None, 'forward', 'backward' or 'ortho'")
    if category(x.dtype) < 2:
        x = cast(x, get_default_dtype())
    if x.dtype not in COMPLEX:
        fail(name, "unsupported dtype", x.dtype, "float32, float64 or complex")
    complex_in = x.dtype.kind == "c"
    if kind == "r2c" and complex_in:
        fail(name, "expects a real input tensor", x.dtype)
    if dims and not x.ndim:
        fail(name, f"dimension specified as {dims[0]} but the tensor has no dimensions", kind=IndexError)
    dims = normalize_axes(dims, x.ndim, name)
    if len(set(dims)) != len(dims):
        fail(name, "dims must be unique", dims)
    if not dims:
        return x
    sizes = [x.shape[d] if s is None or s[i] == -1 else s[i] for i, d in enumerate(dims)]
    if kind == "c2r" and (s is None or s[-1] == -1):
        sizes[-1] = 2 * (x.shape[dims[-1]] - 1)
    if any(n < 1 for n in sizes):
        fail(name, "invalid number of data points", sizes, "at least 1")
    kept = tuple(x.shape[d] for d in dims)
    return _fourier(x, kind, dims, tuple(sizes), norm, inverse, kept, not complex_in)           # noqa: F821


def all_dims(name, x, s, dim):
    """(sizes, dims) of the functions of several axes."""
    if s is not None:
        s = (s,) if isinstance(s, int) else tuple(s)
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if s is not None and dim is not None and len(s) != len(dim):
        fail(name, "s and dim must have the same length", [s, dim], kind=ShapeError)
    if dim is None:
        if s is not None and len(s) > x.ndim:
            fail(name, "s has more sizes than the input has dims", s, kind=ShapeError)
        dim = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    return s, dim


KINDS = {"fft": ("c2c", False), "ifft": ("c2c", True), "rfft": ("r2c", False), "irfft": ("c2r", True),
         "hfft": ("c2r", False), "ihfft": ("r2c", True)}


def _one_axis(name):
    kind, inverse = KINDS[name]

    @with_out
    def function(input, n=None, dim=-1, norm=None):
        return fourier_transform(name, input, kind, None if n is None else (n,), (dim,), norm, inverse)
    function.__name__, function.__doc__ = name, f"The one-dimensional transform {name} along `dim`."
    return function


def _many_axes(name):
    kind, inverse = KINDS[name]

    @with_out
    def function(input, s=None, dim=None, norm=None):
        sizes, dims = all_dims(name + "n", input, s, dim)
        return fourier_transform(name + "n", input, kind, sizes, dims, norm, inverse)
    function.__name__, function.__doc__ = name + "n", f"The transform {name} along `dim` (None: all axes)."
    return function


def _two_axes(name):
    kind, inverse = KINDS[name]

    @with_out
    def function(input, s=None, dim=(-2, -1), norm=None):
        sizes, dims = all_dims(name + "2", input, s, dim)
        return fourier_transform(name + "2", input, kind, sizes, dims, norm, inverse)
    function.__name__, function.__doc__ = name + "2", f"The transform {name} along two axes."
    return function


for _name in KINDS:
    globals()[_name] = _one_axis(_name)
    globals()[_name + "2"], globals()[_name + "n"] = _two_axes(_name), _many_axes(_name)


# ------------------------------------------------------------------------------ frequencies
def _turned(x, dim, forward):
    """Each axis of `dim` turned by half its size."""
    dims = range(x.ndim) if dim is None else normalize_axes(dim, x.ndim, "fftshift")
    for d in dims:
        size = x.shape[d]
        cut = (size + 1) // 2 if forward else size // 2
        if 0 < cut < size:
            x = cat((narrow(x, d, cut, size - cut), narrow(x, d, 0, cut)), d)
    return x


def fftshift(input, dim=None):
    """Frequency zero moved to the middle."""
    return _turned(input, dim, True)


def ifftshift(input, dim=None):
    """The inverse of fftshift."""
    return _turned(input, dim, False)


def _frequencies(values, dtype, requires_grad):
    from flambeau.ops.host import tensor_of
    made = tensor_of(values, dtype or get_default_dtype())
    return made.requires_grad_(True) if requires_grad else made


@with_out
@placed
def fftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of fft's results for n values at distances d."""
    return _frequencies(numpy.fft.fftfreq(n, d), dtype, requires_grad)


@with_out
@placed
def rfftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of rfft's results for n values at distances d."""
    return _frequencies(numpy.fft.rfftfreq(n, d), dtype, requires_grad)
