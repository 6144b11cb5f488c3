"""The prerequisites script, with stand-ins for Pythons and compilers that this machine does not have."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_prerequisites.sh"
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def executable(path, *lines):
    path.write_text("\n".join(["#!/usr/bin/env bash", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def check(**environment):
    return subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True,
                          env=dict(os.environ, **environment))


@pytest.fixture
def compiler(tmp_path):
    return executable(tmp_path / "fine-cc", "exit 0")


def test_finds_this_python(compiler):
    done = check(CC=compiler)
    assert done.returncode == 0, done.stderr
    answer = subprocess.run([done.stdout.strip(), "-c", "import sys; print(sys.version_info[:2])"],
                            capture_output=True, text=True)
    assert answer.stdout in {"(3, 11)\n", "(3, 12)\n", "(3, 13)\n"}


def test_names_what_a_python_lacks(tmp_path, compiler):
    bare = executable(tmp_path / "bare-python", r"printf '3.12\t/opt/bare/python3.12\tvenv,headers\n'")
    done = check(PYTHON=bare, CC=compiler)
    assert done.returncode == 1 and done.stdout == ""
    assert "venv and ensurepip modules of Python 3.12" in done.stderr and "Python.h" in done.stderr
    assert "compiler" not in done.stderr
    if shutil.which("apt-get"):
        assert "apt-get install" in done.stderr and "-dev" in done.stderr and "-venv" in done.stderr


def test_names_an_unfit_version_and_the_compiler(tmp_path):
    old = executable(tmp_path / "old-python", 'case "$3" in *lacking*) echo version ;; *) echo 3.9 ;; esac')
    done = check(PYTHON=old, CC=str(tmp_path / "no-such-compiler"))
    assert done.returncode == 1
    assert "found only 3.9" in done.stderr and "a working C compiler" in done.stderr


def test_skips_a_shim_that_does_not_start(tmp_path, compiler):
    executable(tmp_path / "python3.13", "echo 'pyenv: python3.13: command not found' >&2", "exit 127")
    done = check(PATH=f"{tmp_path}:{os.environ['PATH']}", CC=compiler)
    assert done.returncode == 0 and str(tmp_path) not in done.stdout
