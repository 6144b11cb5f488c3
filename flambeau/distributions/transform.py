"""The base of transforms, and those made of others: inverse, composition, event axes, parts."""

import weakref

from flambeau.base.errors import fail
from flambeau.distributions import constraints
from flambeau.distributions.utils import sum_rightmost
from flambeau.ops.join import cat, stack
from flambeau.runtime._core import Size
from flambeau.tensor.create import zeros


class Transform:
    """An invertible map y = f(x) that knows its log |det Jacobian|.

    A subclass states `domain` and `codomain` (constraints), `bijective`, for maps of numbers `sign` (1 or
    -1), and `_call(x)`, `_inverse(y)`, `log_abs_det_jacobian(x, y)`; one that changes shapes also
    `forward_shape` and `inverse_shape`.

    Args:
        cache_size: 1 keeps the last pair (x, y), so that the inverse of a fresh y is x itself; 0 keeps
            nothing.
    """

    bijective = False

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv = None
        self._cached_x_y = None, None

    def __getstate__(self):
        return {**self.__dict__, "_inv": None, "_cached_x_y": (None, None)}

    @property
    def event_dim(self):
        """Number of event axes, where domain and codomain have the same."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("use .domain.event_dim or .codomain.event_dim: they differ")

    @property
    def inv(self):
        """The inverse transform."""
        made = None if self._inv is None else self._inv()
        if made is None:
            made = InverseTransform(self)
            self._inv = weakref.ref(made)
        return made

    @property
    def sign(self):
        """1 where the map of numbers is increasing, -1 where it is decreasing."""
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        """The same transform with that cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__} has no with_cache")

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x):
        """y = f(x)."""
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = x, self._call(x)
        return self._cached_x_y[1]

    def _inv_call(self, y):
        """x with f(x) = y."""
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = self._inverse(y), y
        return self._cached_x_y[0]

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """log |dy/dx| for the pair x, y = f(x), with the event axes reduced."""
        raise NotImplementedError

    def forward_shape(self, shape):
        """The shape of y for an x of this shape."""
        return shape

    def inverse_shape(self, shape):
        """The shape of x for a y of this shape."""
        return shape

    def __repr__(self):
        return type(self).__name__ + "()"


class InverseTransform(Transform):
    """The inverse of a transform; it shares that one's cache."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform
        self.transform = transform

    @property
    def domain(self):
        return self.transform.codomain

    @property
    def codomain(self):
        return self.transform.domain

    @property
    def bijective(self):
        return self.transform.bijective

    @property
    def sign(self):
        return self.transform.sign

    @property
    def inv(self):
        return self.transform

    def with_cache(self, cache_size=1):
        return self.transform.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, InverseTransform) and self.transform == other.transform

    __hash__ = object.__hash__

    def __call__(self, x):
        return self.transform._inv_call(x)

    def _inv_call(self, y):
        return self.transform(y)

    def log_abs_det_jacobian(self, x, y):
        return -self.transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self.transform.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self.transform.forward_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self.transform!r})"


class ComposeTransform(Transform):
    """Transforms one after the other, the first of `parts` first.

    >>> from flambeau.distributions import AffineTransform, ExpTransform
    >>> ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])(tensor(0.5))
    tensor(2.7183)
    """

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self):
        """The first part's, with the event axes that later parts need besides."""
        if not self.parts:
            return constraints.real
        dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dim = max(dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return with_event_dim(self.parts[0].domain, dim)

    @property
    def codomain(self):
        """The last part's, with the event axes that earlier parts bring."""
        if not self.parts:
            return constraints.real
        dim = self.parts[0].domain.event_dim
        for part in self.parts:
            dim = max(dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return with_event_dim(self.parts[-1].codomain, dim)

    @property
    def bijective(self):
        return all(p.bijective for p in self.parts)

    @property
    def sign(self):
        result = 1
        for part in self.parts:
            result = result * part.sign
        return result

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return x * 0
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, dim = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:]):
            terms.append(sum_rightmost(part.log_abs_det_jacobian(before, after), dim - part.domain.event_dim))
            dim += part.codomain.event_dim - part.domain.event_dim
        result = terms[0]
        for term in terms[1:]:
            result = result + term
        return result

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        return f"{type(self).__name__}([{', '.join(map(repr, self.parts))}])"


def with_event_dim(constraint, dim):
    """A constraint with `dim` event axes, more than it has or as many."""
    missing = dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


class IndependentTransform(Transform):
    """`base_transform`, with `reinterpreted_batch_ndims` more axes counted as event axes.

    >>> from flambeau.distributions import ExpTransform
    >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        self._need_axes(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y):
        self._need_axes(y, self.codomain)
        return self.base_transform._inv_call(y)

    @staticmethod
    def _need_axes(value, constraint):
        if value.ndim < constraint.event_dim:
            fail("IndependentTransform", "Too few dimensions on input", value.ndim,
                 f"at least {constraint.event_dim}",
                 kind=ValueError)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events of shape `in_shape` as events of shape `out_shape`.

    >>> ReshapeTransform((2, 3), (6,))(zeros(5, 2, 3)).shape
    flambeau.Size([5, 6])
    """

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            fail("ReshapeTransform", "in_shape, out_shape have different numbers of elements",
                 (tuple(in_shape), tuple(out_shape)), kind=ValueError)

    @property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape,
                                                                            cache_size)

    def _call(self, x):
        return x.reshape(x.shape[:x.ndim - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[:y.ndim - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return zeros(x.shape[:x.ndim - len(self.in_shape)], dtype=x.dtype)

    def forward_shape(self, shape):
        return replaced_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return replaced_end(shape, self.out_shape, self.in_shape)


def replaced_end(shape, end, new_end):
    """`shape` with its last sizes `end` replaced; ValueError where it does not end so."""
    shape, end = Size(shape), Size(end)
    if len(shape) < len(end) or shape[len(shape) - len(end):] != end:
        fail("ReshapeTransform", "the shape does not end in the transform's", tuple(shape), tuple(end),
             kind=ValueError)
    return shape[:len(shape) - len(end)] + Size(new_end)


# ------------------------------------------------------------------------------ along an axis
class CatTransform(Transform):
    """Transform i for the next `lengths[i]` places along the axis `dim`.

    >>> from flambeau.distributions import ExpTransform
    >>> CatTransform([ExpTransform(), ExpTransform().inv], lengths=[1, 2])(tensor([0.0, 1.0, 1.0]))
    tensor([1., 0., 0.])
    """

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            fail("CatTransform", "one length for each transform", len(self.lengths), len(self.transforms),
                 kind=AssertionError)
        self.dim = dim

    @property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self):
        """Places along the axis."""
        return sum(self.lengths)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim,
                                                                        self.lengths,
                                                                        cache_size)

    def _parts(self, value):
        """The part of `value` that each transform takes."""
        if value.shape[self.dim] != self.length:
            fail("CatTransform", "the axis has another length than the transforms", value.shape[self.dim],
                 self.length,
                 kind=AssertionError)
        ends = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [value.narrow(self.dim, start, length) for start, length in zip(ends, self.lengths)]

    def _call(self, x):
        return cat([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y):
        return cat([t._inv_call(part) for t, part in zip(self.transforms, self._parts(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        found = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y)):
            slope = t.log_abs_det_jacobian(before, after)
            found.append(sum_rightmost(slope, self.event_dim - t.event_dim))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return cat(found, dim)
        result = found[0]
        for slope in found[1:]:
            result = result + slope
        return result

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self):
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self):
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transform i for the place i along the axis `dim`.

    >>> from flambeau.distributions import ExpTransform
    >>> StackTransform([ExpTransform(), ExpTransform().inv])(tensor([0.0, 1.0]))
    tensor([1., 0.])
    """

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim,
                                                                          cache_size)

    def _places(self, value):
        if value.shape[self.dim] != len(self.transforms):
            fail("StackTransform", "the axis has another length than the transforms", value.shape[self.dim],
                 len(self.transforms), kind=AssertionError)
        return [value.select(self.dim, i) for i in range(len(self.transforms))]

    def _call(self, x):
        return stack([t(part) for t, part in zip(self.transforms, self._places(x))], self.dim)

    def _inverse(self, y):
        return stack([t._inv_call(part) for t, part in zip(self.transforms, self._places(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        parts = zip(self.transforms, self._places(x), self._places(y))
        return stack([t.log_abs_det_jacobian(before, after) for t, before, after in parts], self.dim)

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


identity_transform = ComposeTransform([])
