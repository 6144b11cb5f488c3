"""The stage `expand_math`: exp, log, tanh, ... become operations of the table.

Every use of a function of `scalar_math.FUNCTIONS` is written out in front of the statement that holds it. They
exist for float32 and float64; float16 and bfloat16 are computed in float32 and rounded back.
"""

from dataclasses import replace

from flambeau.ir import loops_walk as walk
from flambeau.ir import loops as L
from flambeau.types.dtype import float32


def expand_math(kernel, functions=None):
    """`kernel` without mathematical functions; the same object if it has none.

    functions: name -> function(builder, *args) -> value; by default `scalar_math.FUNCTIONS`.
    ValueError for an operation that is neither in `loops.OPERATIONS` nor among them.
    """
    used = {e.op for e in walk.expressions(kernel.body) if isinstance(e, L.Apply)} - L.OPERATIONS.keys()
    if not used:
        return kernel
    if functions is None:
        from flambeau.compiler.scalar_math import FUNCTIONS as functions
    unknown = sorted(used - functions.keys())
    if unknown:
        names = ", ".join(unknown)
        raise ValueError(f"[expand_math] {kernel.name}: no operation or function is called {names}")
    expander = _Expander(functions, L.Builder(walk.unused_prefix(kernel, "m")))
    return replace(kernel, body=expander.block(kernel.body))


class _Expander:
    def __init__(self, functions, builder):
        self.functions, self.builder = functions, builder

    def block(self, body):
        builder = self.builder
        builder.blocks.append([])
        for statement in body:
            builder.source = statement.source
            statement = walk.map_parts(statement, self.value)      # emits in front of the statement
            builder.emit(walk.map_blocks(statement, self.block))
        return tuple(builder.blocks.pop())

    def value(self, expr):
        expr = walk.map_parts(expr, self.value)
        if not isinstance(expr, L.Apply) or expr.op in L.OPERATIONS:
            return expr
        builder = self.builder
        function, narrow = self.functions[expr.op], expr.dtype.itemsize == 2
        args = [builder.cast(builder.let(a), float32) if narrow else builder.let(a) for a in expr.args]
        result = function(builder, *args)
        return builder.cast(result, expr.dtype) if narrow else result
