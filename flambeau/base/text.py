"""Plain text for people: tables, and numbers in units that one can read."""


def table(rows, header=None, align=None):
    """Lines of columns, each as wide as its widest cell; no line ends in spaces.

    `align` has one letter a column: l(eft), r(ight) or c(entre); without it a column of numbers stands right.

    >>> print(table([("relu", 12), ("matmul", 3)], header=("op", "calls")))
    op      calls
    ------  -----
    relu       12
    matmul      3
    """
    rows = [tuple(row) for row in rows]
    lines = ([tuple(header)] if header else []) + rows
    if not lines:
        return ""
    width = max(map(len, lines))
    cells = [[str(cell) for cell in row] + [""] * (width - len(row)) for row in lines]
    sizes = [max(len(row[i]) for row in cells) for i in range(width)]
    align = align or "".join("r" if _is_numeric(rows, i) else "l" for i in range(width))
    if header:
        cells.insert(1, ["-" * size for size in sizes])
    return "\n".join("  ".join(_pad(text, size, side) for text, size, side in zip(row, sizes, align)).rstrip()
                     for row in cells)


def _is_numeric(rows, column):
    cells = [row[column] for row in rows if column < len(row)]
    return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)


def _pad(text, size, side):
    return {"l": text.ljust, "r": text.rjust, "c": text.center}[side](size)


def _scaled(value, step, units, separator=" "):
    """Three digits and the largest unit that leaves at least 1."""
    sign, value, position = "-" if value < 0 else "", abs(value), 0
    while position + 1 < len(units) and round(value) >= step:
        value /= step
        position += 1
    digits = f"{value:.0f}" if value >= 100 or (position == 0 and value == int(value)) else f"{value:.3g}"
    return f"{sign}{digits}{separator}{units[position]}".rstrip()


def human_bytes(count):
    """
    >>> human_bytes(1536), human_bytes(20), human_bytes(3 * 2**30)
    ('1.5 KiB', '20 B', '3 GiB')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def human_count(count):
    """
    >>> human_count(1_234_567), human_count(999), human_count(10_000)
    ('1.23 M', '999', '10 k')
    """
    return _scaled(count, 1000, ("", "k", "M", "G", "T"))


def human_time(seconds):
    """
    >>> human_time(0.00123), human_time(2.5e-8), human_time(75), human_time(7500)
    ('1.23 ms', '25 ns', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 0:
        return "-" + human_time(-seconds)
    if seconds < 59.95:
        return _scaled(seconds * 1e9, 1000, ("ns", "µs", "ms", "s"))
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"
