"""`flambeau ops`: the matrix op x consumer has no empty cell but for a stated reason."""

import re

import pytest

import flambeau.tensor  # noqa: F401 - gives the ops their methods
from flambeau.cli import main, ops_matrix
from flambeau.ops.spec import REGISTRY

# Every word that a cell may hold, by column; what starts with "no: " is a reason.
WORDS = {
    "eager": r"native call|plan by signature|view, no kernel|host call",
    "compiled": r"fused loop|row loop|index map|fused from its ops|host step|copies|steps of its own|template [\w., ]+",
    "derivative": r"stated|transpose|traced from its ops",
    "vmap": r"rule by name|rule of its kind|op by op|example by example",
    "jvp": r"view of the tangent|op by op|derivative \(diagonal\)|transposed gradient",
    "complex": r"rule by name|formula on pairs|parts|products of parts|op by op|elements as they are",
    "dtypes": r"those of its (ops|operands)|checked by itself|(bf|[buifc])\d*(/\d+)*( (bf|[uifc])\d+(/\d+)*)*",
    "in-place": r"\w+_",
    "out=": "yes",
    "tested": r"test_\w+|as part of \w+|with its callers in ops\.\w+",
}


@pytest.fixture(scope="module")
def rows():
    return {
        name: dict(zip(ops_matrix.COLUMNS, ops_matrix.row(operation), strict=True))
        for name, operation in REGISTRY.items()
    }


def test_no_cell_is_empty_without_a_reason(rows):
    for name, cells in rows.items():
        assert cells["op"] == name and cells["kind"] == REGISTRY[name].kind
        for column, words in WORDS.items():
            assert re.fullmatch(rf"{words}|no: \w[\w ,]+", cells[column]), (name, column, cells[column])


def test_every_differentiable_op_has_a_derivative(rows):
    assert [n for n, cells in rows.items() if cells["derivative"] == "no: nothing asks for it"] == []
    for name, cells in rows.items():
        assert cells["derivative"].startswith("no: ") == cells["jvp"].startswith("no: "), name


def test_cells_of_ops_that_everybody_knows(rows):
    sine, total, product, turned = (rows[n] for n in ("sin", "sum", "mm", "transpose"))
    assert sine["eager"] == "native call" and sine["compiled"] == "fused loop" and sine["in-place"] == "sin_"
    assert (
        sine["complex"] == "formula on pairs"
        and sine["jvp"] == "derivative (diagonal)"
        and sine["tested"] == "test_every_op"
    )
    assert total["compiled"] == "row loop" and total["in-place"] == "no: another shape"
    assert product["compiled"] == "template product" and product["vmap"] == "rule by name"
    assert turned["compiled"] == "index map" and turned["out="] == "no: a view"
    assert rows["lt"]["derivative"] == "no: not differentiable" and rows["lt"]["complex"].startswith("no: ")


def test_opaque_ops_stay_few():
    """Host functions are an exception: under 15 % of the public operations."""
    opaque, total = ops_matrix.opaque_share()
    assert 30 < opaque < 0.15 * total and total > 500


def test_table_filter_and_tsv(capsys):
    assert main(["ops", "pool", "--kind", "window"]) == 0
    table = capsys.readouterr().out
    lines = table.splitlines()
    assert lines[0].split()[:4] == ["op", "kind", "eager", "compiled"] and "\033" not in table
    assert all("pool" in line and "window" in line for line in lines[2:-2])
    assert re.fullmatch(
        r"\d+ ops, \d+ of them public; \d+ of \d+ public operations \(\d+ %\) are Opaque .*", lines[-1]
    )
    assert main(["ops", "s?n", "--tsv"]) == 0
    header, *body = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert tuple(header) == ops_matrix.COLUMNS and [cells[0] for cells in body] == ["sin"]
    assert {len(cells) for cells in body} == {len(header)}


def test_wrong_filters_are_told(capsys):
    assert main(["ops", "nothing_like_this"]) == 2 and "no op matches" in capsys.readouterr().err
    assert main(["ops", "--kind", "odd"]) == 2 and "elementwise" in capsys.readouterr().err


def test_colours_on_a_terminal_only():
    from flambeau.cli.ops import painted

    shown = painted(["op  derivative", "--  ----------", "lt  no: not differentiable  rule"])
    assert (
        shown[0] == "\033[1mop  derivative\033[0m"
        and "\033[2mno: not differentiable\033[0m  rule" in shown[2]
    )
