"""Counts floating-point operations of a block, module by module, backward passes too."""

import functools

from flambeau.measure import flops
from flambeau.nn import global_hooks
from flambeau.ops import interpose
from flambeau.runtime._core import Tensor

__all__ = ["FlopCounterMode"]

_UNITS = (("", 1), ("K", 1e3), ("M", 1e6), ("B", 1e9), ("T", 1e12))


class FlopCounterMode(interpose.Interposer):
    """Counts the floating-point operations of products, convolutions and attention in a block.

    A multiplication and an addition count as two. Backward passes of what ran in the block count too, for
    the module that ran forward.

    Args:
        mods: not needed: modules are found as they are called.
        depth: how deep modules are listed in the table.
        display: print the table at the end.

    >>> import flambeau as fl
    >>> layer = fl.nn.Linear(30, 20)
    >>> with FlopCounterMode(display=False) as counter:
    ...     layer(fl.rand(64, 30)).sum().backward()
    >>> counter.get_total_flops()           # forward, and the gradient of the weight
    153600
    >>> counter.get_flop_counts()["Linear"]
    {'aten.linear': 76800, 'aten.linear_backward': 76800}
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.depth, self.display = depth, display
        self.counts = {"Global": {}}
        self.scopes, self.names = [], {}

    def __enter__(self):
        self.counts, self.scopes, self.names = {"Global": {}}, [], {}
        self.handles = [
            global_hooks.register_module_forward_pre_hook(self.enter_module),
            global_hooks.register_module_forward_hook(self.leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        for handle in self.handles:
            handle.remove()
        if self.display and not any(error):
            print(self.get_table(self.depth))

    # ------------------------------------------------------------------ modules
    def enter_module(self, module, args):
        if not self.scopes:
            root = type(module).__name__
            self.names = {
                id(inner): f"{root}.{path}" if path else root for path, inner in module.named_modules()
            }
        self.scopes.append(self.names.get(id(module), type(module).__name__))

    def leave_module(self, module, args, output):
        if self.scopes:
            self.scopes.pop()

    # ------------------------------------------------------------------ ops
    def handle(self, operation, args, kwargs):
        result = operation.function(*args, **kwargs)
        if any(getattr(type(each), "is_traced", False) for each in args):
            return result
        count = flops.of_call(operation, args, result)
        if count:
            scopes = dict.fromkeys(["Global", *self.scopes])
            self.note(scopes, f"aten.{operation.name}", count)
            made = result[0] if isinstance(result, tuple) else result
            if isinstance(made, Tensor) and made.requires_grad and hasattr(made.grad_fn, "_add_hook"):
                backward = flops.of_backward(operation, args, count)
                made.grad_fn._add_hook(
                    0, functools.partial(self.note_backward, scopes, operation.name, backward)
                )
        return result

    def note(self, scopes, name, count):
        for scope in scopes:
            table = self.counts.setdefault(scope, {})
            table[name] = table.get(name, 0) + count

    def note_backward(self, scopes, name, count, grad):
        if self in interpose.stack():
            self.note(scopes, f"aten.{name}_backward", count)

    # ------------------------------------------------------------------ what was found
    def get_total_flops(self):
        """The count of everything."""
        return sum(self.counts["Global"].values())

    def get_flop_counts(self):
        """{module: {op: count}}; "Global" is everything."""
        return {module: dict(table) for module, table in self.counts.items()}

    def get_table(self, depth=None):
        """The counts as text, modules down to `depth`."""
        from flambeau.base.text import table

        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        unit, scale = next(pair for pair in reversed(_UNITS) if pair[1] == 1 or total >= pair[1])
        rows = []
        for module, counts in self.counts.items():
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            rows.append(
                (" " * level + module, f"{sum(counts.values()) / scale:.3f}{unit}", _share(counts, total))
            )
            rows += [
                (f"{' ' * level} - {op}", f"{count / scale:.3f}{unit}", _share({op: count}, total))
                for op, count in counts.items()
            ]
        return table(rows, ("Module", "FLOP", "% Total"))


def _share(counts, total):
    return f"{sum(counts.values()) / total:.2%}" if total else "0.00%"
