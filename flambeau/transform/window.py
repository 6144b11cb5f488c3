"""In-place writes to values that have no memory: the value moves, and views of it follow.

A view remembers what it is a window on. A write to a view gives its base a new value ("what it was, with the new value
in the window"), and a view whose base changed since is made again when it is next read.
"""

from flambeau.ops import plans
from flambeau.ops.elementwise import cast, full_like, where
from flambeau.ops.view import expand
from flambeau.ops.wrapped import Wrapped
from flambeau.runtime import _core


class Movable(Wrapped):
    """A Wrapped tensor whose fields may change. window: (base, view op, attributes, the base's count of changes)."""

    @property
    def inner(self):
        self.refresh()
        return self.__dict__["inner"]

    @property
    def changes(self):
        """How often the value was written to, its base's writes included."""
        self.refresh()
        return self.__dict__.get("changes", 0)

    @property
    def _version(self):
        return self.changes

    def refresh(self):
        window = self.__dict__.get("window")
        if window is None:
            return
        base, operation, attrs, seen = window
        now = base.changes
        if now != seen:
            before = _core.set_grad_mode(True)
            try:
                fresh = self.level.process(operation, plans.assemble(operation, iter([base]), attrs))
            finally:
                _core.set_grad_mode(before)
            kept = {name: fresh.__dict__[name] for name in fresh.__dict__ if name != "window"}
            self.__dict__.update(kept, window=(base, operation, attrs, now), changes=self.__dict__.get("changes", 0) + 1)

    def take(self, result):
        """Become `result`, and let the base follow."""
        window = self.__dict__.get("window")
        if window is None:
            self.level.replace(self, result)
            self.__dict__["changes"] = self.__dict__.get("changes", 0) + 1
            return
        base, operation, attrs, _ = window
        base.take(put(base, operation, attrs, result))
        self.refresh()


def put(base, operation, attrs, value):
    """`base` with `value` where the view `operation` of it looks."""
    names = operation.derivative_roles[2]
    given = {name: attrs[name] for name in names}
    covered = operation.derivative(full_like(value, 1), base, **given)
    spread = operation.derivative(value, base, **given)
    return where(covered != 0, spread, base)


def assign(operation, target, result):
    """The door of in-place writes to movable values: target takes `result`, cast and broadcast."""
    if result.dtype is not target.dtype:
        result = cast(result, target.dtype)
    if tuple(result.shape) != tuple(target.shape):
        result = expand(result, tuple(target.shape))
    target.take(result)
    return target
