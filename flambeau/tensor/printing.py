"""How a tensor prints: the same text as PyTorch's, built from Python numbers.

Of a tensor above `threshold` elements only the `edgeitems` first and last of each axis are read. Width and
notation are chosen from the elements that are shown (`_Format`), then the nested lists are laid out.
"""

import contextlib
import math
from dataclasses import asdict, dataclass

from flambeau.ops.overrides import asking, carries
from flambeau.runtime._core import Tensor
from flambeau.types import dtype as dtypes

_detach = Tensor.detach


@dataclass
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4          # digits after the point
    threshold: float = 1000     # a tensor of more elements is summarised
    edgeitems: int = 3          # elements shown at each end of an axis then
    linewidth: int = 80         # columns
    sci_mode: bool | None = None    # scientific notation: always, never, or by the values


_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
OPTIONS = PrintOptions()


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """Set how tensors print; what is not given stays, but `sci_mode` returns to None (by the values).

    Args:
        precision: digits after the point.
        threshold: number of elements above which a tensor is summarised.
        edgeitems: elements shown at each end of an axis of a summarised tensor.
        linewidth: columns after which a row is broken.
        profile: 'default', 'short' or 'full', as a start for the others.
        sci_mode: always (True) or never (False) scientific notation.
    """
    chosen = dict(_PROFILES.get(profile, {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen.update({name: value for name, value in given.items() if value is not None})
    for name, value in chosen.items():
        setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions():
    """The options as a dict that `set_printoptions` takes."""
    return asdict(OPTIONS)


@contextlib.contextmanager
def printoptions(**options):
    """`set_printoptions` for the duration of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class _Gap:
    """Stands for the elements left out of a summarised axis."""


GAP = _Gap()


# ---------------------------------------------------------------------------------- elements

class _Format:
    """Notation and width of all shown elements of a real tensor."""

    def __init__(self, values, floating):
        self.floating = floating
        self.whole, self.scientific, self.width = True, False, 1
        if not floating:
            self.width = max([1, *(len(str(value)) for value in values)])
            return
        values = [value for value in values if math.isfinite(value) and value != 0]
        if not values:
            return
        self.whole = all(value == math.ceil(value) for value in values)
        self.scientific = OPTIONS.sci_mode if OPTIONS.sci_mode is not None else _spread_is_wide(values)
        self.width = max(len(self._plain(value)) for value in values)

    def _plain(self, value):
        """A finite number without padding."""
        if self.scientific:
            return f"{value:.{OPTIONS.precision}e}"
        if self.whole:
            return f"{value:.0f}."
        return f"{value:.{OPTIONS.precision}f}"

    def text(self, value):
        """One element, padded on the left to the common width."""
        if not self.floating or not math.isfinite(value):
            return str(value).rjust(self.width)
        return self._plain(value).rjust(self.width)


def _spread_is_wide(values):
    sizes = [abs(value) for value in values]
    small, large = min(sizes), max(sizes)
    return large / small > 1000.0 or large > 1.0e8 or small < 1.0e-4


class _ComplexFormat:
    """Real and imaginary part, each with the format of all such parts."""

    def __init__(self, values):
        self.real = _Format([value.real for value in values], True)
        self.imag = _Format([value.imag for value in values], True)
        self.width = self.real.width + self.imag.width + 1

    def text(self, value):
        imag = self.imag.text(value.imag).lstrip() + "j"
        sign = "" if imag[0] in "+-" else "+"
        return self.real.text(value.real) + sign + imag


# ---------------------------------------------------------------------------------- layout

def _shown(tensor, summarize):
    """The elements to show as nested lists, with GAP where some are left out."""
    if not summarize or tensor.dim() == 0:
        return tensor.tolist()
    edge, size = OPTIONS.edgeitems, tensor.shape[0]
    if size <= 2 * edge:
        if tensor.dim() == 1:
            return tensor.tolist()
        return [_shown(tensor[index], True) for index in range(size)]
    if edge == 0:
        return [GAP]
    if tensor.dim() == 1:
        return [*tensor[:edge].tolist(), GAP, *tensor[size - edge:].tolist()]
    first = [_shown(tensor[index], True) for index in range(edge)]
    last = [_shown(tensor[index], True) for index in range(size - edge, size)]
    return [*first, GAP, *last]


def _leaves(shown):
    if isinstance(shown, list):
        for each in shown:
            yield from _leaves(each)
    elif shown is not GAP:
        yield shown


def _layout(shown, dim, indent, form):
    if dim == 0:
        return form.text(shown)
    if dim == 1:
        return _row(shown, indent, form)
    parts = ["..." if each is GAP else _layout(each, dim - 1, indent + 1, form) for each in shown]
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row(shown, indent, form):
    gap = " ..." if OPTIONS.edgeitems else "..."
    texts = [gap if each is GAP else form.text(each) for each in shown]
    per_line = max(1, (OPTIONS.linewidth - indent) // (form.width + 2))
    lines = [", ".join(texts[start:start + per_line]) for start in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def elements_text(tensor, indent=0):
    """The elements of a tensor as nested brackets; further lines start at column `indent`."""
    if tensor.numel() == 0:
        return "[]"
    shown = _shown(tensor, tensor.numel() > OPTIONS.threshold)
    values = list(_leaves(shown))
    if tensor.dtype.is_complex:
        form = _ComplexFormat(values)
    else:
        form = _Format(values, tensor.dtype.is_floating_point)
    return _layout(shown, tensor.dim(), indent, form)


# ---------------------------------------------------------------------------------- the whole

def tensor_text(tensor, prefix=None):
    """The `repr` of a tensor: prefix, elements, and what cannot be seen from them.

    Size, dtype, device and `requires_grad` are shown only where they are not the usual.
    """
    own = carries(type(tensor))
    with asking(False, False):
        prefix = (f"{type(tensor).__name__}(" if own else "tensor(") if prefix is None else prefix
        shown = _detach(tensor) if own else tensor.detach()
        meta = shown.device.type == "meta"
        content = "..." if meta else elements_text(shown, len(prefix))
        text = _with_suffixes(prefix + content, _suffixes(tensor, meta), len(prefix))
    return f"Parameter({text})" if own and getattr(tensor, "_is_param", False) else text


def _suffixes(tensor, meta):
    parts = []
    if tensor.device.type != "cpu":
        parts.append(f"device='{tensor.device}'")
    default = dtypes.get_default_dtype()
    if meta or tensor.numel() == 0:
        usual = (default,)
        show_size = meta or tensor.dim() != 1
    else:
        wide = default is dtypes.float64
        usual = (default, dtypes.complex128 if wide else dtypes.complex64, dtypes.int64, dtypes.bool_)
        show_size = not OPTIONS.edgeitems
    if show_size:
        parts.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype not in usual:
        parts.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        parts.append(f"grad_fn=<{_node_name(tensor.grad_fn)}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    return parts


def _node_name(node):
    name = getattr(node, "name", None)
    return name() if callable(name) else type(node).__name__


def _with_suffixes(text, suffixes, indent):
    """Append the suffixes, each on a new line if the last one would become too long."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
