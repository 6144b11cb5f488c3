"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import io
import pkgutil

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.types import dtype as dtypes

SKIPPED = ("flambeau.torch", "flambeau.cli", "flambeau.testing")       # mirrors, commands, what the tests use themselves
NAMES = {"fl": fl, "nn": nn, "tensor": fl.tensor, **{d.name: d for d in dtypes.ALL}}


def modules():
    """Names of the modules whose docstrings hold examples."""
    for module in pkgutil.walk_packages(fl.__path__, "flambeau."):
        if not module.name.startswith(SKIPPED):
            yield module.name


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said = io.StringIO()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=NAMES):
        runner.run(test, out=said.write)
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()
