"""The demo as a user runs it, with two epochs instead of twenty, and the pieces that draw in the terminal."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

for needed in ("sklearn", "rich", "matplotlib"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "demo" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("demo_digits", DEMO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_epochs_from_data_to_picture(tmp_path):
    done = subprocess.run([sys.executable, str(DEMO), "--epochs", "2"], cwd=tmp_path,
                          capture_output=True, text=True,
                          env=dict(os.environ, COLUMNS="100", PYTHONPATH=str(ROOT)))
    assert done.returncode == 0, done.stderr
    kernels, accuracy = done.stdout.splitlines()[-2:]
    assert re.fullmatch(r"kernels: \d+ compiled in \d+\.\d s, \d+ from cache", kernels)
    found = re.fullmatch(r"test accuracy: (\d+\.\d) %", accuracy)
    assert found and float(found[1]) > 85
    assert "█" in done.stdout and "loss" in done.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "digits.fl").exists()


def test_the_pictures_and_captions_have_one_width(digits):
    lines = digits.digit_art([[0, 0.25, 0.5, 1, 0, 0, 0, 0]] * 8)
    assert lines == ["  ░░▒▒██" + 8 * " "] * 8
    right = dict(label=7, prediction=7, confidence=0.998)
    wrong = dict(label=2, prediction=1, confidence=0.834)
    assert digits.caption(right) == "[green]7, 99.8 %       [/]"
    assert digits.caption(wrong) == "[bold red]1, 83.4 % (a 2) [/]"


def test_shown_digits_are_distinct_and_mistakes_come_last(digits):
    answers = [dict(label=n % 10, prediction=n % 10 if n > 3 else 9 - n, number=n) for n in range(40)]
    shown = digits.choose_digits(answers, misread=2, count=8)
    assert [digit["label"] for digit in shown] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert [digits.is_right(digit) for digit in shown] == [True] * 6 + [False] * 2
    assert [digit["number"] for digit in shown] == [10, 11, 12, 13, 4, 5, 0, 1]


def test_the_learning_rate_rises_and_falls_to_zero(digits):
    rates = [digits.learning_rate(step, 460) for step in range(460)]
    peak = rates.index(max(rates))
    assert rates[0] > 0 and rates[peak] == pytest.approx(digits.PEAK_LEARNING_RATE, rel=0.01)
    assert rates[:peak] == sorted(rates[:peak]) and rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] < digits.PEAK_LEARNING_RATE / 100
