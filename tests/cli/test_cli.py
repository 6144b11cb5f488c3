"""The other commands: doctor, cache, show, pack, and the command line itself."""

import os
import re
import subprocess
import sys

import pytest

from flambeau.base.cache import Cache
from flambeau.cli import STAGES, main, make_parser


def flambeau(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "flambeau.cli", *arguments], capture_output=True, text=True,
                          env=dict(os.environ, **environment))


@pytest.fixture
def cache(tmp_path):
    """A cache folder with one entry of 4,000 bytes and what `size` then says."""
    cache = Cache(tmp_path / "kernels")
    cache.put("key", b"x" * 4000)
    return cache


def test_cache_shows_its_size_and_clears(cache):
    shown = flambeau("cache", FLAMBEAU_CACHE=cache.folder)
    assert shown.stdout.startswith(f"{cache.folder}: 3.") and shown.stdout.endswith(" KiB\n")
    cleared = flambeau("cache", "clear", FLAMBEAU_CACHE=cache.folder)
    assert cleared.stdout == shown.stdout.replace("\n", " removed\n") and cache.size() == 0
    assert flambeau("cache", "size", FLAMBEAU_CACHE=cache.folder).stdout == f"{cache.folder}: 0 B\n"


def test_a_refused_cache_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    done = flambeau("cache", FLAMBEAU_CACHE=str(tmp_path / "file"))
    assert done.returncode == 1 and done.stdout.startswith("not in use: ")


def test_doctor_reads_as_a_table(cache):
    done = flambeau("doctor", FLAMBEAU_CACHE=cache.folder, FLAMBEAU_THREADS="1", FLAMBEAU_TARGET="generic")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = dict(re.findall(r"^  (\S+(?: \S+)*)  +(.+)$", done.stdout, re.MULTILINE))
    assert rows["used by kernels"] == "1"
    assert rows["target"].startswith("generic: ") and rows["target"].endswith("vectors of 16 bytes")
    assert rows["cache"].startswith(cache.folder) and rows["cache"].endswith("writable")
    assert rows["numpy"].split(".")[0].isdigit() and rows["native heart"] == "built"
    assert {"model", "features", "kernel pack", "llvmlite", "Python", "cgroup quota"} <= set(rows)


def test_doctor_names_the_command_for_a_missing_extra(monkeypatch):
    from flambeau.cli import doctor

    versions = {"flambeau": "0.1.0", "rich": "13.0"}
    requirements = ['numpy>=1', 'rich>=13; extra == "demo"', 'scipy; extra == "test"',
                    'flambeau[demo,test]; extra == "all"']
    monkeypatch.setattr(doctor, "version", versions.get)
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda package: requirements)
    assert doctor.extras() == [("rich", "demo", "13.0"),
                               ("scipy", "test", "missing: pip install 'flambeau[test]'")]


def test_show_hands_script_and_stage_to_the_viewer(monkeypatch, capsys, tmp_path):
    import types

    viewer = types.SimpleNamespace(show=lambda script, stage: f"{stage} of {os.path.basename(script)}")
    monkeypatch.setitem(sys.modules, "flambeau.compiler.viewer", viewer)
    monkeypatch.setattr("flambeau.compiler.viewer", viewer, raising=False)
    script = tmp_path / "train.py"
    script.write_text("")
    for stage in STAGES:
        assert main(["show", str(script), "--stage", stage]) == 0
        assert capsys.readouterr().out == f"{stage} of train.py\n"
    assert main(["show", str(tmp_path / "other.py")]) == 2


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["cache", "burn"],
                                       ["show", "x.py", "--stage", "poem"]])
def test_a_wrong_command_line_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args(arguments)
    assert caught.value.code == 2 and "usage: flambeau" in capsys.readouterr().err


def test_the_command_line_starts_without_the_compiler_and_numpy():
    code = ("import sys; from flambeau.cli import make_parser; make_parser(); import flambeau.cli.run\n"
            "print({'numpy', 'llvmlite', 'flambeau.compiler', 'flambeau.tensor'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code],
                          capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
