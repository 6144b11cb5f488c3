"""The rows of a sparse matrix times a dense matrix.

Row r of the result is the sum of values[e] * dense[column[e], :] over the entries e of row r, in their order: entries
ends[r - 1] (of row 0: 0) .. ends[r] - 1. Rows are independent, so any number of threads gives the same bits.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

PARAMS = ("rows", "inner")


def sparse_rows(dtype, index_dtype=int64, name="sparse_rows"):
    """Buffers: ends (rows,), column and values (entries,), dense (any, inner), out (rows, inner). One step of the
    extent is a row."""
    b = L.Builder()
    inner = I.index("inner")
    with b.loop("row", L.BEGIN, L.END) as row:
        line = b.let(I.mul(row, inner))
        with b.loop("i_zero", 0, inner, kind="vector") as i:
            b.store("out", I.add(line, i), b.const(0, dtype))
        before = b.cast(b.load("ends", I.maximum(I.sub(row, 1), 0), index_dtype), int64)
        start = b.let(L.apply("select", L.apply("eq", row, L.as_index(0)), L.as_index(0), before))
        stop = b.let(b.cast(b.load("ends", row, index_dtype), int64))
        with b.loop("entry", start, stop) as entry:
            value = b.let(b.load("values", entry, dtype))
            read = b.let(I.mul(b.cast(b.load("column", entry, index_dtype), int64), inner))
            with b.loop("i", 0, inner, kind="vector") as i:
                term = b.mul(b.load("dense", I.add(read, i), dtype), value)
                b.store("out", I.add(line, i), b.add(b.load("out", I.add(line, i), dtype), term))
    buffers = (L.Buffer("out", dtype, "rw"), L.Buffer("ends", index_dtype, "r"), L.Buffer("column", index_dtype, "r"),
               L.Buffer("values", dtype, "r"), L.Buffer("dense", dtype, "r"))
    return L.Kernel(name, buffers, PARAMS, I.index("rows"), b.body())
