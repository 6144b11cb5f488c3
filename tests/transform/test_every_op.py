"""The table of function transforms: op x (vjp = jvp = differences, second derivatives, vmap, vmap of grad)."""

import pytest

import flambeau as fl
from flambeau.base.flags import override
from flambeau.ops.recurrent import recurrent
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle, stated, transforms
from flambeau.types.dtype import float64

COLUMNS = {"first": transforms.check_first, "second": transforms.check_second, "vmap": transforms.check_vmap,
           "vmap of grad": transforms.check_vmap_of_grad}
NAMES = [name for name in oracle.every_op() if REGISTRY[name].differentiable]
CASES = 2           # attributes of an op that are tried, from both ends of what it states

# Ops that take no samples of their own: the cells are those of a function that runs them.
FUNCTIONS = {
    "_complex_as_pairs": (lambda x: (fl.view_as_real(fl.view_as_complex(x)),), (3, 2)),
    "_pairs_as_complex": (lambda x: (fl.view_as_real(fl.view_as_complex(x)),), (3, 2)),
    "_fourier": (lambda x: (fl.view_as_real(fl.fft.rfft(x)),), (2, 6)),
    # the factor has no derivative, in PyTorch neither
    "_linalg_ldl_solve": (lambda b: (fl.linalg.ldl_solve(*fl.linalg.ldl_factor(fl.eye(3, dtype=float64) + 0.1), b),), (3, 2)),
    "ctc_loss": (lambda x: (fl.nn.functional.ctc_loss(x.log_softmax(2), fl.tensor([[1, 1], [2, 0]]), [4, 3], [2, 1],
                                                      reduction="none"),), (4, 2, 3)),
    "recurrent_layer": (lambda x, w, u, b, h, c: recurrent(
        "lstm", x, fl.tensor([0, 2, 3]), h, c, weight_ih=w, weight_hh=u, bias_ih=b, bias_hh=b),
        (3, 2), (8, 2), (8, 2), (8,), (2, 2), (2, 2)),
}
# Ops that only derivatives call: the columns "second" and "vmap of grad" of these are their cells.
DERIVATIVES = {name: other for name, other in stated.TESTED_BY.items() if name.endswith(("gradient", "unslice", "_sum"))
               and "recurrent" not in name} | {"stacked_states": "recurrent_layer"}
# Cells that stay empty, with the reason.
EMPTY = {
    ("ctc_loss", "second"): "refused, as in PyTorch: tests/nn/test_ctc.py",
    ("dropout_with_key", None): "random: tests/transform/test_modules.py",
    ("dropout_with_mask", None): "no derivative in the scale, which is a number: tests/tensor/test_stream.py",
    ("log_gamma_drawn", None): "random: its derivative is that of the drawn value, tests/distributions",
    ("log_gamma_draw", None): "random: its derivative is that of the drawn value, tests/distributions",
}


def attributes_of(operation):
    tried = [a for a in stated.cases(operation) if a.get("dtype", float64).kind == "f"]
    return tried if len(tried) <= CASES else [tried[0], tried[-1]]


def shape_for(operation, attributes):
    own = stated.shapes(operation)
    if own:
        return own[min(1, len(own) - 1)]
    return (2, 3) if stated.fits(attributes, (2, 3)) else (2, 3, 4)


def cases_of(name):
    if name in FUNCTIONS:
        function, *shapes = FUNCTIONS[name]
        rng = [oracle.numpy.random.default_rng(seed) for seed in (1, 2, 3)]
        yield transforms.Case(name, function, [list(map(oracle.to_tensor, (r.uniform(-1, 1, s) for s in shapes))) for r in rng])
        return
    operation = REGISTRY[name]
    for attributes in attributes_of(operation):
        shape = shape_for(operation, attributes)
        yield transforms.case_of([oracle.draw(operation, seed, shape, float64, attributes=attributes) for seed in (1, 2, 3)])


def has_cells(name):
    return name not in DERIVATIVES and (name, None) not in EMPTY and (name in FUNCTIONS or float64 in REGISTRY[name].dtypes)


@pytest.mark.parametrize("name", [n for n in NAMES if has_cells(n)])
def test_table(name):
    with override(opt=0):
        for case in cases_of(name):
            for column, check in COLUMNS.items():
                if (name, column) not in EMPTY:
                    check(case)


def test_no_cell_is_empty_without_reason():
    for name in NAMES:
        reason = name in DERIVATIVES and DERIVATIVES[name] in NAMES or (name, None) in EMPTY
        assert reason or name in FUNCTIONS or stated.samples(REGISTRY[name]) is not None, name
    assert {n for n, _ in EMPTY} <= set(NAMES)
