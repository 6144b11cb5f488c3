"""The programs of tests/torch/behaviours print under PyTorch what the pages say."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "torch" / "behaviours"
sys.path.insert(0, str(FOLDER))
from run import programs  # noqa: E402

sys.path.remove(str(FOLDER))
CASES = [
    (page.name, *program) for page in sorted(FOLDER.glob("*.md")) for program in programs(page.read_text())
]


def answer(*arguments):
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True, timeout=100, check=True
    ).stdout


@functools.cache
def printed_by(page):
    return json.loads(answer(FOLDER / "run.py", FOLDER / page))


@pytest.mark.parametrize(
    "page, title, kind, source, expected", CASES, ids=[f"{case[0]}: {case[1]}" for case in CASES]
)
def test_program(page, title, kind, source, expected, tmp_path):
    if kind.strip() == "script":
        script = tmp_path / "program.py"
        script.write_text(source)
        assert answer(script) == expected
    else:
        assert printed_by(page)[title] == expected
