"""Small programs of the behaviours that PyTorch's clients rely on: what they print under `flambeau run`.

The pages in `behaviours` hold the programs with what PyTorch prints (`tests/parity/test_behaviours.py`
asks it again).
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "behaviours"
sys.path.insert(0, str(FOLDER))
from run import programs  # noqa: E402

sys.path.remove(str(FOLDER))
RUN = [sys.executable, "-m", "flambeau.cli", "run"]
CASES = [
    (page.name, *program) for page in sorted(FOLDER.glob("*.md")) for program in programs(page.read_text())
]


def answer(command):
    environment = dict(os.environ, PYTHONPATH=str(FOLDER.parents[2]))
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


@functools.cache
def printed_by(page):
    """{title: what the program printed} of a page's programs, run in one process."""
    text = answer([*RUN, FOLDER / "run.py", FOLDER / page])
    try:
        return json.loads(text)
    except ValueError:
        raise AssertionError(text) from None


@pytest.mark.parametrize(
    "page, title, kind, source, expected", CASES, ids=[f"{case[0]}: {case[1]}" for case in CASES]
)
def test_program(page, title, kind, source, expected, tmp_path):
    if kind.strip() == "script":
        script = tmp_path / "program.py"
        script.write_text(source)
        assert answer([*RUN, script]) == expected
    else:
        assert printed_by(page)[title] == expected
