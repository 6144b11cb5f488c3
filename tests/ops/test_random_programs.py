"""Random programs: eager, compiled as one graph, and the NumPy references agree; so do the gradients."""

import pytest

from flambeau.base.flags import override
from flambeau.compiler import pipeline
from flambeau.ir.loops_verify import verify
from flambeau.testing import oracle, programs
from flambeau.types.dtype import float64

PROGRAMS, A_TEST = 200, 10
oracle.every_op()


def verify_kernels(stage, form):
    """Every kernel on the way is well formed."""
    if stage == "kernel":
        verify(form)


@pytest.mark.parametrize("first", range(0, PROGRAMS, A_TEST))
def test_programs_agree(first):
    """A failure shows the seed and the smallest program that still fails."""
    with override(opt=0), pipeline.watch(verify_kernels):
        for seed in range(first, first + A_TEST):
            programs.raise_shrunk(programs.random_program(seed), programs.check)


@pytest.mark.parametrize("first", range(0, PROGRAMS, A_TEST))
def test_gradients_agree(first):
    """The tape op by op against the compiled derivative of the whole program."""
    with override(opt=0), pipeline.watch(verify_kernels):
        for seed in range(first, first + A_TEST):
            programs.raise_shrunk(programs.random_program(seed), programs.check_gradients)


def test_programs_are_varied_and_repeatable():
    made = [programs.random_program(seed) for seed in range(PROGRAMS)]
    assert [str(p) for p in made] == [str(programs.random_program(seed)) for seed in range(PROGRAMS)]
    assert all(len(p.steps) <= 31 for p in made) and sum(len(p.steps) >= 5 for p in made) > PROGRAMS * 0.8
    used = {step.op for p in made for step in p.steps}
    assert {"sin", "add", "sum", "merge_axes", "permute", "where"} <= used


def test_a_wrong_program_is_shrunk():
    program = next(p for p in map(programs.random_program, range(50)) if len(p.steps) > 8 and "cos" in str(p))

    def refuses_cos(candidate):
        assert all(step.op != "cos" for step in candidate.steps), "there is a cos"

    with pytest.raises(AssertionError, match="shrunk to 1:") as error:
        programs.raise_shrunk(program, refuses_cos)
    assert f"seed {program.seed}" in str(error.value) and "there is a cos" in str(error.value)


# ------------------------------------------------------------------------------ the smallest programs of faults found
def program(inputs, steps, outputs):
    """A Program from (name, shape) pairs and steps (name, op, *operands, attributes)."""
    made = tuple(programs.Step(name, op, tuple(operands), tuple(attributes.items()))
                 for name, op, *operands, attributes in steps)
    return programs.Program(0, float64, inputs, made, outputs, {}, {})


FOUND = {
    "the order of a sum does not depend on what is broadcast into it": program(
        (("x", (20, 1)), ("y", (20, 2))), [("t", "mul", "x", "y", {}), ("u", "mean", "t", {"dim": (0, 1)})], ("u",)),
    "a function with a branch beside accumulators": program(
        (("x", (3,)), ("y", (3,)), ("z", (3, 1))),
        [("t", "cos", "z", {}), ("c", "gt", "x", 0.25, {}), ("u", "where", "c", "y", "t", {}),
         ("v", "mul", "u", "y", {})], ("v",)),
    "elementwise with two results": program(
        (("x", (5,)),), [("t", "sin", "x", {}), ("u", "add", "x", 1.5, {})], ("u", "t")),
    "the derivative of a slice": program(
        (("x", (5, 17)),), [("t", "part", "x", {"dim": 1, "start": 1, "stop": 3})], ("t",)),
    "a reduction of rows and of all beside a softmax": program(
        (("x", (3, 3)), ("y", (3, 1))),
        [("t", "amax", "y", {"dim": (1,), "keepdim": True}), ("u", "softmax", "x", {"dim": 0}),
         ("v", "logaddexp", "u", "t", {}), ("w", "amin", "u", {"dim": (0, 1), "keepdim": True}),
         ("z", "minimum", "t", "w", {})], ("u", "v", "z")),
}


@pytest.mark.parametrize("what", FOUND)
def test_faults_found(what):
    with override(opt=0), pipeline.watch(verify_kernels):
        programs.check(FOUND[what])
        programs.check_gradients(FOUND[what])
