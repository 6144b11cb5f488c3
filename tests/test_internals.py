"""docs/internals.md is executed, from an empty cache, for this processor and for one without vector extensions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("target", ["native", "generic"])
def test_the_page_says_what_happens(tmp_path, target):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), FLAMBEAU_CACHE=str(tmp_path), FLAMBEAU_NO_PACK="1",
                       FLAMBEAU_TARGET=target)
    done = subprocess.run([sys.executable, "tests/run_page.py", "docs/internals.md"], capture_output=True, text=True,
                          cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
