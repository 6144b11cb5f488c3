"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import io
import pkgutil
from pathlib import Path

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.tensor.rng import set_stream
from flambeau.types import dtype as dtypes

FACADE = Path(fl.__file__).parent / "torch"
SKIPPED = ("flambeau.torch", "flambeau.cli", "flambeau.testing")       # the facade apart; commands; what the tests use
NAMES = {"fl": fl, "nn": nn, "tensor": fl.tensor, **{d.name: d for d in dtypes.ALL}}


def modules():
    """Names of the modules whose docstrings hold examples."""
    for module in pkgutil.walk_packages(fl.__path__, "flambeau."):
        if not module.name.startswith(SKIPPED):
            yield module.name


def run_examples(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said = io.StringIO()
    fl.manual_seed(0)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=NAMES):
        runner.run(test, out=said.write)
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()
    return runner.tries


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name):
    run_examples(name)


@pytest.mark.parametrize("path", [str(path.relative_to(FACADE)) for path in sorted(FACADE.rglob("*.py"))
                                  if ">>>" in path.read_text(encoding="utf-8")])
def test_examples_of_the_facade(path):
    dtypes.set_repr_prefix("torch")             # what `choices` in conftest.py takes back
    set_stream("pytorch")
    parts = [part for part in Path(path).with_suffix("").parts if part != "__init__"]
    assert run_examples(".".join(["flambeau.torch", *parts])) > 0
