"""Documents: a README in every folder, links that lead somewhere, pages whose code runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted({path.parent for path in (ROOT / "flambeau").rglob("*.py")})
PAGES = sorted(path for top in ("flambeau", "docs", "demo", "benchmarks", "scripts", "tests")
               for path in (ROOT / top).rglob("*.md")) + [ROOT / "README.md"]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w/.-])((?:flambeau|docs|tests|benchmarks)/[\w./-]*\w\.(?:py|pyx|pxi|md))\b")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def name(path):
    return str(path.relative_to(ROOT))


def run_page(path):
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run([sys.executable, str(ROOT / "tests" / "run_page.py"), str(path)], capture_output=True, text=True,
                          env=environment)


def dead(page, root=ROOT):
    """What a page refers to and is not there: targets of relative links, and paths from the root in its text."""
    text = page.read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in LINK.findall(CODE.sub("", text)) if "://" not in link]
    return ([link for link in links if link and not (page.parent / link).exists()]
            + [path for path in PATH.findall(text) if not (root / path).exists()])


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_every_folder_has_a_readme(folder):
    page = folder / "README.md"
    assert page.is_file() and page.read_text(encoding="utf-8").startswith("# "), f"{name(folder)} needs a README.md"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_refers_to_is_there(page):
    assert dead(page) == []


def test_dead_references_are_seen(tmp_path):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("[here](page.md) [there](../gone.md#part) [out](https://example.com) `docs/page.md` docs/no.md\n"
                    "```\n[code](is/not/a/link)\n```\n")
    assert dead(page, tmp_path) == ["../gone.md", "docs/no.md"]


@pytest.mark.parametrize("page", [p for p in PAGES if ">>>" in p.read_text("utf-8") and p.name != "internals.md"], ids=name)
def test_the_code_of_a_page_runs(page):
    done = run_page(page)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_output_on_a_page_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Prose.\n\n```python\n>>> 1 + 1\n2\n>>> 1 + 2\n4\n```\n\n```\n>>> 'a' * 2\n'aa'\n```\n")
    done = run_page(page)
    assert done.returncode == 1 and done.stdout.count("Failed example") == 1 and "1 + 2" in done.stdout


OP_TEST = """
import sys
sys.path.insert(0, {tests!r})
import run_page
from pathlib import Path
run_page.examples(Path({page!r}))
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle
for dtype in REGISTRY["lorentzian"].dtypes:
    oracle.check_reference(oracle.draw(REGISTRY["lorentzian"], 1, (5, 7), dtype, ("transposed",)))
import flambeau as fl
from flambeau.tensor import grad
x = fl.tensor([0.5, -2.0], dtype=fl.float64, requires_grad=True)
first, = grad(x.lorentzian().sum(), x, create_graph=True)
second, = grad(first.sum(), x)
print(((6 * x * x - 2) / (1 + x * x) ** 3 - second).abs().max().item() < 1e-14)
"""


def test_the_op_in_the_readme_of_ops_passes_the_oracles():
    """One class in one file is all that a further elementwise op needs."""
    program = OP_TEST.format(tests=str(ROOT / "tests"), page=str(ROOT / "flambeau" / "ops" / "README.md"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(ROOT)))
    assert done.returncode == 0 and done.stdout == "True\n", done.stdout + done.stderr


@pytest.mark.parametrize("number, page", list(enumerate(DECISIONS, 1)), ids=[p.stem for p in DECISIONS])
def test_a_decision_is_numbered_short_and_says_what_was_rejected(number, page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert page.name.startswith(f"{number:04d}-") and len(lines) <= 40
    assert lines[0].startswith(f"# {number}. ")
    assert [line for line in lines if line.startswith("## ")] == ["## What", "## Why", "## Rejected"]
