"""Random programs: eager, compiled as one graph, and the NumPy references agree; so do the gradients."""

import pytest

from flambeau.base.flags import override
from flambeau.testing import oracle, programs

PROGRAMS, A_TEST = 200, 10
oracle.every_op()


@pytest.mark.parametrize("first", range(0, PROGRAMS, A_TEST))
def test_programs_agree(first):
    """A failure shows the seed and the smallest program that still fails."""
    with override(opt=0):
        for seed in range(first, first + A_TEST):
            programs.raise_shrunk(programs.random_program(seed), programs.check)


@pytest.mark.parametrize("first", range(0, PROGRAMS, A_TEST))
def test_gradients_agree(first):
    """The tape op by op against the compiled derivative of the whole program."""
    with override(opt=0):
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
