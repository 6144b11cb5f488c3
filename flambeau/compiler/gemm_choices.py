"""What autotuning may choose for matrix products (compiler.tune): register blocks, tiles, and up to how many
rows a product is one with few rows. DEPTH and the parts of long sums, which the bits depend on, are not
among it."""

from dataclasses import dataclass, replace

from flambeau.compiler.tune import Family


@dataclass(frozen=True)
class ProductChoice:
    """Changes to a gemm.Blocking; 0 leaves what the cost model says. `rows` and `vectors`: of a register
    block; `tile_rows`: at most; `enough`: tiles to share out; `few`: rows of a product that B is not packed
    for, at most; `grain`: how many times as much a thread takes at a time."""

    rows: int = 0
    vectors: int = 0
    tile_rows: int = 0
    enough: int = 0
    few: int = 0
    grain: int = 1

    def blocking(self, plan):
        """The Blocking to use in place of the usual one."""
        rows = self.rows or plan.rows
        return replace(plan, rows=rows, few_rows=rows // 2, vectors=self.vectors or plan.vectors,
                       least_rows=-(-plan.least_rows // rows) * rows, enough=self.enough or plan.enough,
                       tile_rows=(self.tile_rows or plan.tile_rows) // rows * rows)


PRODUCT = Family("matrix product", ProductChoice(), (
    ProductChoice(few=24), ProductChoice(few=4), ProductChoice(enough=2), ProductChoice(rows=6, vectors=4),
    ProductChoice(tile_rows=64), ProductChoice(grain=8)))
