"""The training loop in the README runs and learns."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_training_loop_of_the_readme(tmp_path):
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[1]
    (tmp_path / "circle.py").write_text(program)
    done = subprocess.run([sys.executable, "circle.py"], cwd=tmp_path, capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(ROOT)))
    assert done.returncode == 0, done.stderr
    percent = re.fullmatch(r"(\d+\.\d)% of the points are on the right side\n", done.stdout)
    assert percent and float(percent[1]) > 90
    assert (tmp_path / "circle.fl").exists()
