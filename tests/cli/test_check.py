"""`flambeau check`: reads a program and lists its uses of PyTorch, without running it."""

import subprocess
import sys

import pytest

from flambeau.cli import main
from flambeau.cli.usage import files_of, read_program

PROGRAM = """
import torch
import torch.nn as nn, torch.nn.functional as F
from torch import optim as o
from torch.utils.data import DataLoader
import numpy as np

raise SystemExit("this must not run")

class Net(nn.Module):
    def forward(self, x):
        return F.relu(x).frobnicate_all()

lin = torch.linalg
x = torch.randn(3)
y = x.view(-1).no_such_thing + 1
z = (x * 2).to_mkldnn()
w = np.zeros(3).frobnicate()
opt = o.AdamWonderful(Net().parameters())
dev = torch.device("cpu")
print(torch.float32.is_floating_point, torch.nosuch.deeper.still)
"""


def read(tmp_path, text, name="script.py"):
    path = tmp_path / name
    path.write_text(text)
    return path, read_program(files_of([str(path)]))


def test_names_are_followed_from_their_imports(tmp_path):
    _, uses = read(tmp_path, PROGRAM)
    found = {use.name: use for use in uses.names()}
    assert {"torch.nn.Module", "torch.nn.functional.relu", "torch.randn", "torch.device",
            "torch.utils.data.DataLoader"} <= {name for name, use in found.items() if use.supported}
    assert [use.name for use in uses.names() if not use.supported and "linalg" not in use.name] == [
        "torch.optim.AdamWonderful", "torch.nosuch.deeper.still"]
    assert found["torch.float32.is_floating_point"].supported
    assert not any("numpy" in name or "frobnicate" == name for name in found)


def test_methods_of_tensors_are_told_by_the_receiver(tmp_path):
    _, uses = read(tmp_path, PROGRAM)
    methods = {use.name: use.supported for use in uses.methods()}
    assert methods[".view"] is True
    assert methods.get(".to_mkldnn") is False
    assert ".frobnicate" not in methods


def test_the_nearest_name_and_the_places(tmp_path):
    _, uses = read(tmp_path, "import torch\ntorch.relux(1)\ntorch.relux(2)\n")
    use, = uses.names()
    assert (use.name, use.supported, use.note, use.places) == ("torch.relux", False, "nearest: torch.relu",
                                                               ["script.py:2", "script.py:3"])


def test_torchvision_is_looked_up_too_and_reasons_are_told(tmp_path):
    _, uses = read(tmp_path, "import torchvision.transforms as T, torch.fx\nfrom torchvision import models\n"
                             "from functorch import vmap\nT.ToTensor(models.resnet18())\nmodels.detection.ssd\n")
    notes = {use.name: use.note for use in uses.names() if not use.supported}
    assert list(notes) == ["torch.fx", "torchvision.models.detection.ssd"]
    assert notes["torch.fx"].startswith("programs are not captured") and "boxes" in notes["torchvision.models.detection.ssd"]
    assert {"functorch.vmap", "torchvision.models.resnet18", "torchvision.transforms.ToTensor"} <= {
        use.name for use in uses.names() if use.supported}


def test_other_names_for_modules(tmp_path):
    _, uses = read(tmp_path, "import torch as t\nfrom torch.nn import functional as G, Linear as L\nact = G.gelu\n"
                             "act(L(1, 2)(t.ones(1)))\n")
    assert {use.name for use in uses.names()} == {"torch.nn.functional", "torch.nn.Linear",
                                                  "torch.nn.functional.gelu",
                                                  "torch.ones"}


def test_star_imports(tmp_path):
    _, uses = read(tmp_path, "from torch.nn import *\nLinear(1, 2)\n")
    assert {use.name for use in uses.names()} == {"torch.nn", "torch.nn.Linear"}


def test_modules_beside_the_script_are_read(tmp_path):
    (tmp_path / "model.py").write_text("import torch\nfrom layers import deep\ntorch.no_such()\n")
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "__init__.py").write_text("")
    (tmp_path / "layers" / "deep.py").write_text("import torch\ntorch.no_such_either()\n")
    _, uses = read(tmp_path, "import model, layers.deep\n")
    assert {use.name: use.places for use in uses.names()} == {"torch.no_such": ["model.py:3"],
                                                              "torch.no_such_either": ["deep.py:2"]}


@pytest.mark.parametrize("text, status, last", [
    ("import torch\nprint(torch.ones(2).sum())\n", 0, "2 of 2 supported"),
    ("import torch\ntorch.no_such_name()\n", 1, "0 of 1 supported, 1 missing"),
    ("print('no torch here')\n", 0, "0 of 0 supported"),
])
def test_exit_status_and_last_line(tmp_path, capsys, text, status, last):
    path = tmp_path / "script.py"
    path.write_text(text)
    assert main(["check", str(path)]) == status
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_the_table(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import torch\ntorch.relux(torch.ones(2))\n")
    done = subprocess.run([sys.executable, "-m", "flambeau.cli", "check", str(path)], capture_output=True,
                          text=True)
    assert done.stdout == ("names\n"
                           "API          supported  uses  first\n"
                           "-----------  ---------  ----  -----------  -------------------\n"
                           "torch.relux  NO            1  script.py:2  nearest: torch.relu\n"
                           "torch.ones   yes           1  script.py:2\n\n"
                           "1 of 2 supported, 1 missing\n")
    assert done.returncode == 1


def test_what_cannot_be_read(tmp_path, capsys):
    assert main(["check", str(tmp_path / "none.py")]) == 2
    (tmp_path / "wrong.py").write_text("x = = 1\n")
    assert main(["check", str(tmp_path / "wrong.py")]) == 2
    assert "wrong.py:1: invalid syntax" in capsys.readouterr().err
