"""A table of Measurements: a row a variant, a column a case, in one unit."""

import math

from flambeau.measure.measurement import Measurement, select_unit, trim_sigfig, unit_to_english

__all__ = ["Compare"]

_BEST, _WORSE, _PLAIN = "\033[92m\033[1m", "\033[2m\033[91m", "\033[0m\033[0m"


class Compare:
    """Tables of Measurements: one for each label, a row for each sub-label and number of threads, a column
    for each description.

    >>> from flambeau.measure.measurement import TaskSpec
    >>> measured = [Measurement(1, [1e-6 * (1 + row) * (1 + column)] * 4,
    ...             TaskSpec("f(x)", label="products", sub_label=f"[{row}]", description=f"case {column}"))
    ...             for row in range(2) for column in range(2)]
    >>> table = Compare(measured)
    >>> table.trim_significant_figures()
    >>> table.print()
    [----------- products ----------]
                 |  case 0  |  case 1
    1 threads: ----------------------
            [0]  |   1.0    |   2.0
            [1]  |   2.0    |   4.0
    <BLANKLINE>
    Times are in microseconds (us).
    """

    def __init__(self, results):
        self._results = []
        self._trimmed = self._warned = False
        self._coloured = None
        self.extend_results(results)

    def extend_results(self, results):
        """Take further Measurements."""
        for each in results:
            if not isinstance(each, Measurement):
                raise ValueError(f"[Compare] a table is of Measurements: got {type(each).__name__}")
        self._results.extend(results)

    def trim_significant_figures(self):
        """Show only the figures that mean something."""
        self._trimmed = True

    def colorize(self, rowwise=False):
        """Show the best green and the worst red, in each column, or in each row."""
        self._coloured = "row" if rowwise else "column"

    def highlight_warnings(self):
        """Mark measurements whose spread is wide, with the spread."""
        self._warned = True

    def print(self):
        """Print the tables."""
        print(str(self))

    def __str__(self):
        tables = {}
        for each in Measurement.merge(self._results):
            tables.setdefault(each.label, []).append(each)
        return "\n\n".join("\n".join(self._table(label, results)) for label, results in tables.items())

    def _table(self, label, results):
        unit, scale = select_unit(min(each.median for each in results))
        columns = list(dict.fromkeys(each.description for each in results))
        rows = list(dict.fromkeys((each.num_threads, each.env, each.as_row_name) for each in results))
        rows.sort(key=lambda row: row[0])
        cells = {(each.num_threads, each.env, each.as_row_name, each.description): each for each in results}
        grid = [[cells.get((*row, column)) for column in columns] for row in rows]
        heads = [column or "" for column in columns]
        texts = [
            self._column(head, [line[place] for line in grid], scale) for place, head in enumerate(heads)
        ]
        names = _row_names(rows)
        indent = max(map(len, [*names, *(f"{threads} threads: " for threads, _, _ in rows)]))
        widths = [max(map(len, (head, *column))) for head, column in zip(heads, texts)]
        line = [" " * indent, *(head.center(width) for head, width in zip(heads, widths))]
        head_line = "  |  ".join(line).rstrip()
        full = indent + sum(width + 5 for width in widths)
        title = f" {label} ".center(full - 2, "-") if label else "-" * (full - 2)
        lines, before = [f"[{title}]", head_line], None
        for number, (threads, _, _) in enumerate(rows):
            if threads != before:
                lines.append(f"{threads} threads: ".ljust(full, "-"))
                before = threads
            shown = [
                self._painted(text[number].center(width), grid, number, place)
                for place, (text, width) in enumerate(zip(texts, widths))
            ]
            lines.append("  |  ".join([names[number].rjust(indent), *shown]).rstrip())
        return [*lines, "", f"Times are in {unit_to_english(unit)}s ({unit})."]

    def _column(self, head, measured, scale):
        """The texts of a column, their points below each other."""

        def figures(each):
            return min(each.significant_figures, 2)  # a machine is rarely steadier than a hundredth

        decimals = 1
        if self._trimmed:
            decimals = max(
                (
                    max(0, figures(each) - 1 - math.floor(math.log10(each.median / scale)))
                    for each in measured
                    if each is not None
                ),
                default=0,
            )
            decimals = min(decimals, 3)
        texts = []
        for each in measured:
            if each is None:
                texts.append("")
                continue
            value = each.median / scale
            text = f"{trim_sigfig(value, figures(each)) if self._trimmed else value:.{decimals}f}"
            if self._warned and each.has_warnings:
                text += f" (! {each.iqr / each.median:.0%})"
            texts.append(text)
        width = max(map(len, texts))
        return [text.rjust(width) for text in texts]

    def _painted(self, text, grid, row, column):
        each = grid[row][column]
        if self._coloured is None or each is None:
            return text
        rivals = grid[row] if self._coloured == "row" else [line[column] for line in grid]
        rivals = [rival.median for rival in rivals if rival is not None]
        colour = (
            _BEST if each.median <= 1.05 * min(rivals) else _WORSE if each.median >= 2 * min(rivals) else ""
        )
        inner = text.strip()
        return text.replace(inner, colour + inner + _PLAIN) if colour else text


def _row_names(rows):
    """The rows' names, after their environments if there are any."""
    environments = [f"({env})" if env else "" for _, env, _ in rows]
    width = max(map(len, environments))
    longest = max(len(name) for _, _, name in rows)
    return [
        f"  {env:<{width}}  {name:<{longest}}" if width else f"  {name}"
        for env, (_, _, name) in zip(environments, rows)
    ]
