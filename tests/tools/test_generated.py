"""Generated files are what the registry and the signatures say; what the stubs say is so."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fl
from flambeau import namespace
from flambeau.runtime._core import Tensor
from flambeau.tools import coverage, generated, op_pages, signatures, stubs

PROGRAM = Path(__file__).with_name("typed_program.py")


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(generated.ROOT), **environment),
    )


def test_generated_files_are_up_to_date():
    done = run("-m", "flambeau.tools", "--check")
    assert done.returncode == 0, "run `python -m flambeau.tools`\n" + done.stdout + done.stderr[-2000:]


def test_a_difference_is_seen(tmp_path, monkeypatch, capsys):
    from flambeau.tools.__main__ import main

    (tmp_path / "same.txt").write_text("as it is")
    monkeypatch.setattr(
        generated, "texts", lambda: {tmp_path / "same.txt": "as it is", tmp_path / "new" / "a.txt": "new"}
    )
    assert (
        main(["--check"]) == 1 and "differs: " in capsys.readouterr().out and not (tmp_path / "new").exists()
    )
    assert main([]) == 0 and (tmp_path / "new" / "a.txt").read_text() == "new"
    assert main(["--check"]) == 0


# ------------------------------------------------------------------------------ stubs
STUBS = {name: ast.parse(text) for name, text in stubs.files().items()}


def defined(tree):
    """The names that a stub, or a class of it, defines."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield node.targets[0].id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def test_stubs_name_everything_public():
    top = set(defined(STUBS["__init__.pyi"]))
    assert {"sin", "Tensor", "nn", "float32", "no_grad", "inf", "zeros", "abs_"} <= top
    assert {name for name in namespace.names() if not name.startswith("_")} <= top
    tensor = next(
        n for n in STUBS["runtime/_core.pyi"].body if isinstance(n, ast.ClassDef) and n.name == "Tensor"
    )
    assert {name for name in dir(Tensor) if not name.startswith("_")} <= set(defined(tensor)) | {
        "__array_priority__"
    }
    assert set(fl.nn.__all__) <= set(defined(STUBS["nn/__init__.pyi"]))
    for space in ("linalg", "special"):
        assert set(getattr(fl, space).__all__) <= set(defined(STUBS[space + ".pyi"]))


def test_signatures_of_functions_that_everybody_knows():
    def signature(name, owner=fl):
        return signatures.signature(name, getattr(owner, name))

    assert signature("sin") == "(input: Tensor, *, out: Tensor | None = None) -> Tensor"
    assert signature("sum").startswith(
        "(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *,"
    )
    assert signature("reshape") == "(input: Tensor, *shape: int | Sequence[int] | None) -> Tensor"
    assert signature("sort").endswith("-> ValuesIndices") and signature("svd", fl.linalg).startswith(
        "(A: Tensor, full_m"
    )
    assert "min: Tensor | Number | None = None" in signature("clamp")
    assert signature("allclose").endswith("-> bool") and "dtype: DType | None = None" in signature("zeros")
    assert signature("conv2d", fl.nn.functional).endswith("groups: int = 1) -> Tensor")


def kind_of(value):
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return signatures.result_class(fields) if fields else f"tuple[{', '.join(map(kind_of, value))}]"
    return "None" if value is None else type(value).__name__


def fits(said, got):
    return (
        said in (got, "Any")
        or said == "tuple[Tensor, ...]"
        and re.fullmatch(r"tuple\[Tensor(, Tensor)*\]", got)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space", ["flambeau", "linalg", "fft", "special", "nn.functional"])
def test_what_comes_back_is_what_the_stub_says(space):
    """Every function that takes one of these operands is called."""
    owner = fl
    for part in space.split(".") if space != "flambeau" else ():
        owner = getattr(owner, part)
    x, index = fl.rand(4, 4) + 0.5, fl.tensor([[1, 2], [0, 1]])
    called = 0
    for name in getattr(owner, "__all__", None) or dir(owner):
        function = getattr(owner, name)
        if (
            name.startswith(("_", "set_", "use_", "manual_seed", "save", "load"))
            or not callable(function)
            or inspect.isclass(function)
            or name in stubs.OVERLOADS
        ):
            continue
        for operands in ((x,), (x, x), (x, 0), (index,), (x, index), (x, x, x)):
            try:
                got = kind_of(function(*[o.clone() if isinstance(o, Tensor) else o for o in operands]))
            except Exception:  # not an operand of this function
                continue
            called += 1
            assert fits(signatures.returns(name, function), got), (name, got)
    assert called > 15


def test_a_typed_program_runs():
    done = run(str(PROGRAM))
    assert done.returncode == 0, done.stderr


def test_a_typed_program_type_checks():
    pytest.importorskip("mypy")
    done = run("-m", "mypy", "--follow-imports=silent", "--cache-dir", os.devnull, str(PROGRAM))
    assert done.returncode == 0, done.stdout


# ------------------------------------------------------------------------------ pages
def test_sentences_of_docstrings():
    assert (
        op_pages.first_sentence(fl.aminmax)
        == "(min, max) of all elements or along `dim`; NaN if there is one."
    )
    assert (
        op_pages.entry("sin", fl.sin)
        == "- `sin(input)`: Sine of each element, in radians. *elementwise; f16/32/64 bf16*"
    )


def test_coverage_counts_names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text(
        "# where from\n\n[torch.linalg]\nqr svd no_such_one\ncommon_notes\n\n[torch.onnx]\nexport\n"
    )
    assert coverage.namespaces(path) == {
        "torch.linalg": ["qr", "svd", "no_such_one", "common_notes"],
        "torch.onnx": ["export"],
    }
    assert (
        coverage.reason("torch", "quantize_per_tensor") == "quantization"
        and coverage.reason("torch", "sin") is None
    )
    assert "Not there yet: `a`" in coverage.missing_text("torch", ["a", "cudnn_batch_norm"])
