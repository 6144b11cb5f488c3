"""`flambeau run`: a script sees what it would see under `python`, with Flambeau as its torch."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import flambeau


def launch(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "flambeau.cli", "run", *arguments],
                          capture_output=True, text=True, **options)


def run(tmp_path, source, *arguments):
    """Run `source` as a script in tmp_path; returns the finished process."""
    path = tmp_path / "script.py"
    path.write_text(source)
    return launch(str(path), *arguments)


def test_main_module_arguments_and_folder(tmp_path):
    (tmp_path / "neighbour.py").write_text("value = 42\n")
    done = run(tmp_path, "import sys, neighbour\nprint(__name__, __file__, sys.argv, neighbour.value)\n",
               "--epochs", "3", "-x")
    script = str(tmp_path / "script.py")
    assert done.stdout == f"__main__ {script} {[script, '--epochs', '3', '-x']} 42\n", done.stderr


def test_classes_of_the_script_can_be_pickled(tmp_path):
    done = run(tmp_path, "import pickle\nclass Point: pass\n"
                         "print(type(pickle.loads(pickle.dumps(Point()))) is Point)\n")
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("ending, status", [("", 0), ("sys.exit(7)", 7), ("sys.exit('no')", 1), ("1 / 0", 1)])
def test_exit_status_is_handed_on(tmp_path, ending, status):
    assert run(tmp_path, f"import sys\n{ending}\n").returncode == status


def test_traceback_shows_the_script_only(tmp_path):
    done = run(tmp_path, "def divide(a):\n    return a / 0\ndivide(1)\n")
    assert "ZeroDivisionError" in done.stderr and "return a / 0" in done.stderr
    assert "guarded" not in done.stderr and "run.py" not in done.stderr


def test_syntax_error_is_reported_as_by_python(tmp_path):
    done = run(tmp_path, "x = = 1\n")
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "script.py" in done.stderr


def test_missing_script_is_a_clear_error():
    done = launch("no_such_file.py")
    assert done.returncode == 2
    assert done.stderr == "flambeau: cannot read no_such_file.py: No such file or directory\n"


def test_a_module_runs_by_its_name(tmp_path):
    (tmp_path / "tool.py").write_text("import sys, torch.cuda\n"
                                      "print(__name__, sys.argv[1:], torch.cuda.is_available())\n")
    package_folder = str(Path(flambeau.__file__).parent.parent)
    done = launch("-m", "tool", "a", "-b", cwd=tmp_path, env=dict(os.environ, PYTHONPATH=package_folder))
    assert done.stdout == "__main__ ['a', '-b'] False\n", done.stderr


ALIASES = """
import sys
import torch
import torch.cuda as cuda
import torch.backends.cudnn
from torch.utils.data import DataLoader
import torch.nn.functional as F
from torch import nn
import flambeau, flambeau.torch.cuda, flambeau.nn, flambeau.data

assert cuda is sys.modules["torch.cuda"] is flambeau.torch.cuda
assert cuda.__spec__.name == "flambeau.torch.cuda"
assert torch.backends.cudnn.benchmark is False
assert nn.Module is flambeau.nn.Module and DataLoader is flambeau.data.DataLoader
assert F.relu is flambeau.nn.functional.relu
assert torch.Tensor is flambeau.Tensor
print(repr(torch.float32))
"""


def test_torch_is_the_facade_one_module_under_two_names(tmp_path):
    done = run(tmp_path, ALIASES)
    assert done.stdout == "torch.float32\n", done.stderr


def test_an_absent_module_is_reported_under_the_scripts_name(tmp_path):
    done = run(tmp_path, "try:\n    import torch.no_such_part\nexcept ModuleNotFoundError as error:\n"
                         "    print(error.name)\nimport torch.no_such_part\n")
    assert done.stdout == "torch.no_such_part\n" and done.returncode == 1
    assert "No module named 'torch.no_such_part'" in done.stderr


UNSUPPORTED = """
import torch
from torch import optim
assert not hasattr(torch, "no_such_function")
assert getattr(optim, "AdamWW", None) is None
try:
    optim.AdamWW
except NotImplementedError as error:
    print(error)
"""


def test_an_unsupported_name_is_two_errors_and_tells_the_nearest(tmp_path):
    done = run(tmp_path, UNSUPPORTED)
    assert done.stdout == ("[torch.optim] torch.optim.AdamWW is not supported by Flambeau (yet)\n"
                           "  hint: the nearest name that is supported: torch.optim.AdamW\n"), done.stderr


@pytest.mark.parametrize("line, told", [
    ("import torch.fx.passes", "No module named 'torch.fx' in Flambeau's facade of torch (yet): programs are not captured"),
    ("from torch import fx", "[torch] torch.fx is not supported by Flambeau (yet): programs are not captured yet"),
    ("from torch.nn import Linea", "  hint: the nearest name that is supported: torch.nn.Linear"),
    ("import torchvision.models.detection", "(yet): models of boxes are not there"),
    ("from torchvision.datasets import CocoDetection", "(yet): read its files with ImageFolder"),
])
def test_imports_of_what_is_missing_tell_why(tmp_path, line, told):
    done = run(tmp_path, line)
    assert done.returncode == 1 and told in done.stderr


def test_a_star_import_brings_the_public_names(tmp_path):
    done = run(tmp_path, "from torch.nn import *\nprint(Linear.__name__, 'mirror' in globals())\n")
    assert done.stdout == "Linear False\n", done.stderr


CHILDREN = """
import multiprocessing, subprocess, sys

def work(queue):
    import torch
    queue.put(torch.__name__)

if __name__ == "__main__":
    code = "import torch, torch.nn as nn, sys; print(torch.__name__, nn.Linear.__name__, 'children' in ''.join(sys.path))"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, end="")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""


def test_processes_that_the_script_starts_have_the_facade_too(tmp_path):
    done = run(tmp_path, CHILDREN)
    assert done.stdout == "flambeau.torch Linear False\nflambeau.torch\n", done.stderr


def test_a_sitecustomize_of_the_users_own_still_runs_in_them(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import builtins\nbuiltins.mark = 'mine'\n")
    script = tmp_path / "script.py"
    script.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import torch; print(mark)'])\n")
    environment = dict(os.environ,
                       PYTHONPATH=f"{tmp_path / 'own'}{os.pathsep}{Path(flambeau.__file__).parent.parent}")
    done = launch(str(script), env=environment)
    assert done.stdout == "mine\n", done.stderr


MISTAKE = "import torch\nx = torch.ones(2, 3)\nx @ x\n"


def test_own_frames_are_left_out_of_tracebacks(tmp_path):
    done = run(tmp_path, MISTAKE)
    assert done.stderr.count("  File ") == 1 and 'script.py", line 3' in done.stderr
    assert "inner sizes differ" in done.stderr
    (tmp_path / "script.py").write_text(MISTAKE)
    debug = launch(str(tmp_path / "script.py"), env=dict(os.environ, FLAMBEAU_DEBUG="1"))
    assert debug.stderr.count("  File ") > 3


def test_own_frames_are_left_out_of_the_errors_before_it(tmp_path):
    done = run(tmp_path, "import torch\ntry:\n    torch.ones(2, 3) @ torch.ones(2, 3)\n"
                         "except RuntimeError as error:\n    raise ValueError('no') from error\n")
    assert done.stderr.count("  File ") == 2 and "ValueError: no" in done.stderr


def test_functorch_is_served_too(tmp_path):
    done = run(tmp_path, "import functorch, torch\nprint(functorch.vmap is torch.func.vmap, functorch.make_functional.__name__)\n")
    assert done.stdout == "True make_functional\n", done.stderr


def test_packages_that_ask_for_the_version_of_what_is_installed(tmp_path):
    done = run(tmp_path, textwrap.dedent("""\
        import importlib.metadata as metadata
        for name in ("torch", "Torch", "torchvision", "functorch"):
            try:
                print(metadata.version(name).split("+")[0], metadata.metadata(name)["Name"], metadata.requires(name))
            except metadata.PackageNotFoundError:
                print("no", name)
        import torch
        print(metadata.version("torch") == torch.__version__, [d.name for d in metadata.distributions() if "torch" == d.name])
        """))
    assert done.stdout.splitlines() == ["2.13.0 torch None", "2.13.0 torch None", "0.28.0 torchvision None", "no functorch",
                                        "True ['torch']"], done.stderr
