"""`import flambeau` stays light: NumPy, llvmlite and the extras are imported at their first use."""

import subprocess
import sys

import pytest

SLOW = ("numpy", "llvmlite", "scipy", "rich", "matplotlib", "sklearn")


def modules_after(statement):
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_brings_nothing_slow():
    assert not modules_after("import flambeau") & set(SLOW)


@pytest.mark.parametrize("name", ["nn", "optim", "data"])
def test_public_namespaces_are_attributes_and_bring_no_dependency(name):
    loaded = modules_after(f"import flambeau as fl\nfl.{name}")
    assert f"flambeau.{name}" in loaded
    assert not loaded & set(SLOW)


@pytest.mark.parametrize("call", ["flambeau.fft.fftfreq(4)", "flambeau.signal.windows.hann(4)", "flambeau.hann_window(4)",
                                  "flambeau.torch.fft.rfftfreq(4)", "flambeau.torch.signal.windows.hann(4)"])
def test_a_program_may_begin_with_any_function_that_makes_a_tensor(call):
    module = "flambeau.torch" if ".torch." in call else "flambeau"
    code = f"import {module}\nprint(tuple({call}.shape)[0] > 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
