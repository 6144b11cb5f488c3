"""When the disk, another process or the power does its worst: a clear error or a silent rebuild.

Each case runs programs in processes of their own, with a kernel cache in a temporary folder.
"""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
    import flambeau as fl
    from flambeau.compiler import objects
    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = (x @ x).sin().sum() + (x * 3).exp().mean()
    y.backward()
    print([[round(v, 4) for v in row] for row in x.grad.tolist()], objects.statistics().compiled)
"""
SECONDS = 60


def command(program):
    return [sys.executable, "-c", textwrap.dedent(program)]


def environment(cache):
    own = {"FLAMBEAU_CACHE": str(cache), "FLAMBEAU_NO_PACK": "1", "FLAMBEAU_OPT": "0",
           "PYTHONPATH": str(ROOT)}
    return os.environ | own


def run(program, cache, folder=None):
    """(output lines, error text) of a program that must succeed."""
    done = subprocess.run(command(program), env=environment(cache), capture_output=True, text=True,
                          timeout=SECONDS,
                          cwd=folder or cache.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def result(cache, folder=None):
    """(gradient as text, kernels compiled, error text) of the sample program."""
    (line,), errors = run(PROGRAM, cache, folder)
    gradient, _, compiled = line.rpartition(" ")
    return gradient, int(compiled), errors


def entries(cache):
    return sorted(path for path in cache.iterdir() if not path.name.startswith("."))


def temporaries(cache):
    return [path for path in cache.iterdir() if path.name.startswith(".")] if cache.is_dir() else []


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache that a run has filled, and what that run found."""
    cache = tmp_path_factory.mktemp("warm") / "cache"
    gradient, compiled, errors = result(cache)
    assert compiled > 0 and not errors and not temporaries(cache)
    assert result(cache) == (gradient, 0, "")
    return cache, gradient, compiled


@pytest.fixture
def filled(warm, tmp_path):
    """A copy of the warm cache to damage."""
    cache, gradient, compiled = warm
    copy = tmp_path / "cache"
    copy.mkdir(mode=0o700)
    for path in entries(cache):
        (copy / path.name).write_bytes(path.read_bytes())
    return copy, gradient, compiled


# ---------------------------------------------------------------------------------- the kernel cache
def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def replaced_by_folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


def other_entry(path):
    path.write_bytes(entries(path.parent)[0].read_bytes())


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "half": lambda path: os.truncate(path, 100),
    "flipped": flipped, "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\x7fELF" * 999),
    "another entry": other_entry, "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_objects_are_compiled_again_silently(filled, damage):
    cache, gradient, compiled = filled
    for path in entries(cache)[1:]:
        DAMAGE[damage](path)
    again, count, errors = result(cache)
    assert (again, errors) == (gradient, "")
    assert compiled - 1 <= count <= compiled
    assert result(cache) == (gradient, 0, "")           # and the cache is whole again


@pytest.mark.parametrize("how", ["folder", "link to nowhere"])
def test_something_else_in_the_place_of_an_object(filled, how):
    cache, gradient, _ = filled
    objects = [path for path in entries(cache) if b"\x7fELF" in path.read_bytes()[:80]]     # others are plans
    for path in objects[:3]:
        if how == "folder":
            replaced_by_folder(path)
        else:
            path.unlink()
            path.symlink_to("/nowhere/at/all")
    again, count, _ = result(cache)                     # a warning that it cannot be kept is fine
    assert again == gradient and count >= 3


def test_a_read_only_cache_folder(tmp_path, warm):
    """A folder that cannot be written is used for what it has; the rest stays in memory, with one warning."""
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o500)
    without_root = """
        import ctypes, os
        if os.geteuid() == 0:                           # root may write anywhere: give that right up
            libc, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 6)()
            head = (ctypes.c_uint32 * 2)(0x20080522, 0)         # version 3 of the capabilities, this process
            libc.capget(head, sets)
            sets[0] &= ~0b1110
            libc.capset(head, sets)
    """
    program = textwrap.dedent(without_root) + textwrap.dedent(PROGRAM)
    lines, errors = run(program, cache)
    if entries(cache):
        pytest.skip("this process may write into read-only folders")
    assert lines[0].rpartition(" ")[0] == warm[1]
    assert errors.count("kept in memory") == 1 and "hint" in errors
    cache.chmod(0o700)


def test_a_cache_folder_that_cannot_be_made(tmp_path, warm):
    (tmp_path / "file").write_text("")
    gradient, _, errors = result(tmp_path / "file" / "cache", folder=tmp_path)
    assert gradient == warm[1] and errors.count("kept in memory") == 1


def test_two_processes_with_one_cold_cache(tmp_path, warm):
    cache = tmp_path / "cache"
    both = [subprocess.Popen(command(PROGRAM), env=environment(cache), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             text=True, cwd=tmp_path) for _ in range(2)]
    for process in both:
        output, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0 and not errors, errors
        assert output.rpartition(" ")[0] == warm[1]
    assert result(cache) == (warm[1], 0, "") and not temporaries(cache)


def test_killed_while_compiling(tmp_path, warm):
    """kill -9 at random moments: the next run works, and what the killed left behind does not pile up."""
    cache, chance, kills = tmp_path / "cache", random.Random(0), 6
    for _ in range(kills):
        process = subprocess.Popen(command(PROGRAM), env=environment(cache), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=tmp_path)
        started = time.monotonic()
        while not cache.exists() and process.poll() is None and time.monotonic() - started < 20:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=SECONDS)
        assert len(temporaries(cache)) <= kills
    gradient, _, errors = result(cache)
    assert (gradient, errors) == (warm[1], "")
    assert result(cache)[1] == 0


def test_what_a_killed_process_left_is_swept_later(tmp_path, warm):
    from flambeau.base import cache as caches
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    left = [cache / f".entry{i}.{i:016x}{caches._TEMPORARY}" for i in range(20)]
    for path in left:
        path.write_bytes(b"half an object")
        os.utime(path, (0, 0))
    assert result(cache)[0] == warm[1]
    assert not temporaries(cache)


def test_a_full_disk_while_compiling(tmp_path, warm):
    """No room for cache entries (here: files of at most 64 bytes): one warning, right results."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    limited = limit + textwrap.dedent(PROGRAM)
    cache = tmp_path / "cache"
    lines, errors = run(limited, cache)
    assert lines[0].rpartition(" ")[0] == warm[1]
    assert errors.count("kept in memory") == 1
    assert not entries(cache) and not temporaries(cache)


# ---------------------------------------------------------------------------------- saved files
SAVE = """
    import resource, sys
    import flambeau as fl
    state = {"weight": fl.full((1000, 100), 2.0), "step": 2}
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
    fl.save(state, "model.fl")
"""


def saved(folder, step=1):
    import flambeau as fl
    fl.save({"weight": fl.full((1000, 100), float(step)), "step": step}, folder / "model.fl")
    return (folder / "model.fl").read_bytes()


@pytest.mark.parametrize("room", [0, 10, 64, 5000, 300_000])
def test_a_full_disk_while_saving(tmp_path, room):
    """The error is clear, the old file is intact, nothing else is left."""
    import flambeau as fl
    before = saved(tmp_path)
    done = subprocess.run([*command(SAVE), str(room)], env=environment(tmp_path / "cache"),
                          capture_output=True, text=True,
                          timeout=SECONDS, cwd=tmp_path)
    assert done.returncode == 1 and "OSError" in done.stderr, done.stderr
    assert "model.fl" in done.stderr.splitlines()[-1], done.stderr
    assert (tmp_path / "model.fl").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"model.fl", "cache"}
    assert fl.load(tmp_path / "model.fl")["step"] == 1


def test_killed_while_saving(tmp_path):
    """The file is the old one or the new one, never a part."""
    import flambeau as fl
    saved(tmp_path)
    program = """
        import flambeau as fl
        state = {"weight": fl.full((1000, 1000), 2.0), "step": 2}
        print("ready", flush=True)
        while True:
            fl.save(state, "model.fl")
    """
    for delay in (0.0, 0.004, 0.02):
        process = subprocess.Popen(command(program), env=environment(tmp_path / "cache"),
                                   stdout=subprocess.PIPE, cwd=tmp_path)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.kill()
        process.wait(timeout=SECONDS)
        process.stdout.close()
        assert fl.load(tmp_path / "model.fl")["step"] in (1, 2)
    assert len(list(tmp_path.glob(".model*"))) <= 3


@pytest.mark.parametrize("keep", [0, 1, 63, 64, 100, 0.5, -1])
def test_a_truncated_file(tmp_path, keep):
    import flambeau as fl
    data = saved(tmp_path)
    size = int(len(data) * keep) if isinstance(keep, float) else keep if keep >= 0 else len(data) + keep
    (tmp_path / "model.fl").write_bytes(data[:size])
    with pytest.raises(RuntimeError, match=r"model\.fl: .*(truncated|empty file|not a file)"):
        fl.load(tmp_path / "model.fl")


def test_flipped_bytes_in_a_saved_file(tmp_path):
    """Wherever a byte changes, loading fails with the file's name, or the byte was only padding."""
    import flambeau as fl
    data, chance = saved(tmp_path), random.Random(0)
    for place in [*range(0, 64, 5), 70, 100, *(chance.randrange(64, len(data)) for _ in range(10)),
                  len(data) - 1]:
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        (tmp_path / "model.fl").write_bytes(damaged)
        try:
            loaded = fl.load(tmp_path / "model.fl")
        except RuntimeError as error:
            assert "model.fl" in str(error)
        else:
            assert (loaded["weight"] == 1).all() and loaded["step"] == 1
