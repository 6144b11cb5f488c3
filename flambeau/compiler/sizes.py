"""Sizes of an operation in the registers of a plan, for templates whose launches depend on them.

What follows from given sizes is an index expression over their names, worked out when the plan runs; so one
plan has the launches for small and for large operands, and those that do not apply have an extent of 0.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.recipe import WORK


class Sizes:
    """Registers by name: `Sizes(recipe, lines=..., size=...)` with ints or Dims."""

    def __init__(self, recipe, **given):
        self.recipe = recipe
        self.registers = {name: recipe.register(value) for name, value in given.items()}

    def define(self, name, expression):
        """Name what follows from the sizes."""
        self.registers[name] = self.recipe.expression(expression, self.registers)

    def is_never(self, name):
        """True if a size is known to be 0."""
        return self.recipe.known.get(self.registers[name]) == 0

    def buffer(self, dtype, expression):
        """Memory for as many elements as an index expression over the sizes says."""
        return self.recipe.buffer_of(dtype, self.recipe.expression(expression, self.registers))

    def launch(self, kernel, operands, work=None, **more):
        """Launch a template whose params are sizes, or are given.

        work: scalar operations in all, an index expression; None: each step is worth a thread.
        """
        recipe, registers = self.recipe, dict(self.registers)
        for name, value in more.items():
            registers[name] = registers[value] if isinstance(value, str) else recipe.register(value)
        grain = recipe.register(1)
        if work is not None:
            step = I.maximum(I.div(work, I.maximum(kernel.extent, 1)), 1)
            grain = recipe.expression(I.maximum(I.div(4 * WORK, step), 1), registers)
        recipe.launch(kernel, operands, [registers[p] for p in kernel.params],
                      recipe.expression(kernel.extent, registers), grain)
