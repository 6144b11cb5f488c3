"""`import torchvision` under `flambeau run`, in the program and in processes that it starts."""

import os
import subprocess
import sys
from pathlib import Path

import flambeau

SCRIPT = """
import subprocess, sys
import torchvision
from torchvision import datasets, io, models, ops, transforms, utils
from torchvision.datasets.mnist import MNIST
from torchvision.models.resnet import BasicBlock, ResNet18_Weights
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms import v2
import torchvision.transforms.functional as F
import torch
assert torchvision.datasets.MNIST is MNIST and torchvision.__version__.startswith("0.28")
assert transforms.functional is F and isinstance(models.resnet18().layer1[0], BasicBlock)
try:
    import torchvision.nothing
except ModuleNotFoundError as error:
    print(error)
if len(sys.argv) == 1:
    print(subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True).stdout, end="")
"""


def run(script, *arguments):
    environment = dict(os.environ, PYTHONPATH=str(Path(flambeau.__file__).parent.parent))
    return subprocess.run([sys.executable, *arguments, "-m", "flambeau.cli", "run", str(script)],
                          capture_output=True,
                          text=True, env=environment, timeout=100)


def test_torchvision_is_served(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "torchvision.py").write_text("raise SystemExit('the wrong one')")
    done = run(script)
    line = "No module named 'torchvision.nothing' in Flambeau's facade of torchvision (yet)\n"
    assert (done.stdout, done.returncode) == (line * 2, 0), done.stderr


def test_nothing_is_imported_before_it_is_used(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\nprint(any('vision' in name for name in sys.modules))\n"
                      "import torchvision.models, torchvision.transforms, torchvision.datasets\n"
                      "print([name for name in sys.modules if name == 'PIL' or name.endswith('.resnet')])\n")
    done = run(script)
    assert done.stdout == "False\n[]\n", done.stderr
