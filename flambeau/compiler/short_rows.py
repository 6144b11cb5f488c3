"""Row groups with short rows: ROWS rows at a time, one lane a row.

Along a row of few elements most lanes would be empty. Here the loop goes over the places of a row and the lanes are
neighbouring rows. Rows that lie one after the other in memory are turned in registers, by zips, into a local buffer of
columns (one vector a place), and what is written for every element is turned back. The results are those of the lanes
along a row, bit by bit: a column is first combined with the identity, as a lane is, and columns are combined by halving.
"""

from flambeau.compiler.elements import convert, to_number
from flambeau.compiler.gemm_pack import turned
from flambeau.compiler.row_elements import RowElements
from flambeau.ir import loops as L
from flambeau.ir.loops import BEGIN, END, as_index
from flambeau.ops.spec import REGISTRY
from flambeau.types.dtype import int32, uint8

ROWS = 32                   # rows at a time
LONGEST = 16                # elements of a row
SIDE = 4                    # of the squares that are turned


class ShortRows(RowElements):
    """The code for ROWS rows of a RowKernel that reduces, or only walks, the last axis."""

    def __init__(self, kernel):
        super().__init__(kernel.b, kernel.axes, ROWS)
        self.params, self.buffers = kernel.params, kernel.buffers
        self.reductions, self.outputs, self.saved = kernel.reductions, kernel.outputs, kernel.saved
        self.accesses = [a for a in kernel.accesses if self._is_turned(a)]
        self.place = self.last
        self.last = self.place - 1
        self.count = self.size(self.axes[self.place].size)
        self.columns = {}           # id of an access -> the local buffer with its columns
        self.short = self.b.and_(self.b.ge(self.count, as_index(1)), self.b.le(self.count, as_index(LONGEST)))

    @staticmethod
    def serves(kernel):
        """Whether the kernel may meet short rows."""
        axes = kernel.axes
        size = axes[-1].size if axes else None
        return len(axes) > 1 and [a.reduced for a in axes] == [False] * (len(axes) - 1) + [True] \
            and not (isinstance(size, int) and size > LONGEST)

    def _is_turned(self, access):
        """Whether rows, not columns, of an access are consecutive in memory."""
        *_, across, along = access.coefficients(len(self.axes))[0]
        return along == 1 and across not in (0, 1)

    def whole(self):
        """Where the last whole ROWS rows end, where all rows lie in a line and are short; else BEGIN."""
        b = self.b
        return b.select(self.short, L.add(BEGIN, b.and_(b.sub(END, BEGIN), as_index(-ROWS))), BEGIN)

    def fits(self, first, index):
        """Whether the rows from `first`, whose place in the domain is `index`, are short and ROWS in a line."""
        b = self.b
        line = self.size(self.axes[self.last].size)
        fits = b.and_(self.short, b.le(L.add(first, ROWS), END))
        return b.and_(fits, b.le(L.add(index[self.last], ROWS), line))

    def build(self, index):
        """The reductions of the rows whose first is at `index`, and what is stored."""
        self.index = {axis: at for axis, at in index.items() if axis != self.place}
        for access in self.accesses:
            self._turn(turn_in, access, "r")
        for level in range(1 + max((p for _, _, p in self.reductions), default=-1)):
            self._reduce([(n, e) for n, e, p in self.reductions if p == level])
            self.ready |= self.left
        for o in self.outputs:
            if not o.full:
                self._write(o, None)
        self._store_full([o for o in self.outputs if o.full])

    # ------------------------------------------------------------------ passes
    def _places(self, body):
        """body() at each place of the rows."""
        with self.b.loop(self.b.fresh("i"), 0, self.count) as i:
            self.index[self.place] = i
            self._scoped(body)
        del self.index[self.place]

    def _reduce(self, pairs):
        """One pass over the places for all reductions of a phase."""
        b, totals = self.b, []
        self._hoist([e for _, e in pairs])
        for node, _ in pairs:
            self._weigh(node, self.count)
            operation = REGISTRY[node.op]
            dtype = operation.types(node.inputs, dict(node.attrs))[1]
            identity = b.const(to_number(operation.identity(dtype), dtype), dtype, ROWS)
            is_tree = dtype.kind == "f"             # of others the order does not matter
            totals.append((identity, b.local(b.fresh("tree"), dtype, ROWS * LONGEST) if is_tree else b.declare(identity)))

        def body():
            for (node, element), (identity, total) in zip(pairs, totals):
                x, combine = self._wide(self._operand(node, element, None)), REGISTRY[node.op].combine
                if isinstance(total, str):
                    b.store(total, self._column(), b.call(combine, identity, x))
                else:
                    b.assign(total, b.call(combine, total, x))

        self._places(body)
        self._halve([(n, i.dtype, total) for (n, _), (i, total) in zip(pairs, totals) if isinstance(total, str)])
        for (node, _), (identity, total) in zip(pairs, totals):
            value = b.load(total, as_index(0), identity.dtype, ROWS) if isinstance(total, str) \
                else b.let(L.Var(total.dtype, total.lanes, total.name), b.fresh())
            self.results[node.outputs[0].name] = self._finished(node, value, self.count)

    def _halve(self, trees):
        """Combine the columns of each tree: with those 8 places on, then 4, 2 and 1, where there are any."""
        b, half = self.b, LONGEST // 2
        while trees and half:
            with b.loop(b.fresh("h"), 0, b.call("min", L.add(self.count, -half), as_index(half))) as i:
                for node, dtype, tree in trees:
                    lower, upper = (b.load(tree, L.mul(L.add(i, n), ROWS), dtype, ROWS) for n in (0, half))
                    b.store(tree, L.mul(i, ROWS), b.call(REGISTRY[node.op].combine, lower, upper))
            half //= 2

    def _store_full(self, outputs):
        if not outputs:
            return
        self._hoist([o.element for o in outputs])

        def body():
            for o in outputs:
                self._write(o, None)

        self._places(body)
        for o in outputs:
            if id(o.access) in self.columns:
                self._turn(turn_out, o.access, "w")

    # ------------------------------------------------------------------ columns
    def _column(self):
        return L.mul(self.index[self.place], ROWS)

    def _load(self, access, mask):
        if id(access) not in self.columns:
            return super()._load(access, mask)
        dtype = access.located.dtype
        return convert(self.b, self.b.load(self.columns[id(access)], self._column(), carrier(dtype), ROWS), dtype)

    def _put(self, access, value, mask, full):
        if not full or not self._is_turned(access):
            return super()._put(access, value, mask, full)
        kept = carrier(access.located.dtype)
        self.b.store(self._local(access), self._column(), convert(self.b, self._wide(value), kept))

    def _local(self, access):
        if id(access) not in self.columns:
            self.columns[id(access)] = self.b.local(self.b.fresh("columns"), carrier(access.located.dtype), ROWS * LONGEST)
        return self.columns[id(access)]

    def _turn(self, function, access, way):
        at, step = self._address(access)
        function(self.b, self.buffer(access.located, way), access.located.dtype, at, self.size(step), self.count,
                 self._local(access))


def carrier(dtype):
    """The dtype in which elements are turned: a bool goes as a number."""
    return uint8 if dtype.kind == "b" else dtype


def turn_in(b, name, dtype, at, step, count, local):
    """Read ROWS rows of `count` elements, the first at `at` of a buffer, `step` apart, into a local buffer of columns."""
    nothing = b.const(to_number(0, dtype), dtype, SIDE)

    def body(place, row, addresses, lanes):
        rows = [convert(b, b.load(name, where, dtype, SIDE, lanes, nothing), carrier(dtype)) for where in addresses]
        for n, column in enumerate(turned(b, rows)):
            b.store(local, L.add(L.mul(L.add(place, n), ROWS), row), column)

    _squares(b, at, step, count, body)


def turn_out(b, name, dtype, at, step, count, local):
    """Write columns to the rows that `turn_in` would read."""
    def body(place, row, addresses, lanes):
        columns = [b.load(local, L.add(L.mul(L.add(place, n), ROWS), row), carrier(dtype), SIDE) for n in range(SIDE)]
        for where, vector in zip(addresses, turned(b, columns)):
            b.store(name, where, convert(b, vector, dtype), lanes)

    _squares(b, at, step, count, body)


def _squares(b, at, step, count, body):
    """body(place, number of the first of SIDE rows, where each of them has that place, lanes that are there) all over."""
    at, step = b.let(at), b.let(step)
    with b.loop(b.fresh("p"), 0, count, SIDE) as place:
        left = b.call("splat", b.cast(b.sub(count, place), int32), dtype=int32, lanes=SIDE)
        lanes = b.lt(b.call("lane", dtype=int32, lanes=SIDE), left)
        start = b.let(L.add(at, place))
        with b.loop(b.fresh("r"), 0, ROWS, SIDE) as row:
            body(place, row, [L.add(start, L.mul(L.add(row, n), step)) for n in range(SIDE)], lanes)
