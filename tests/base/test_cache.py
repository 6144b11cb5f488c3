"""The cache against damage, other users, full disks and killed writers; files written whole or not at all."""

import errno
import os
import stat
import warnings

import pytest

from flambeau.base import cache as module
from flambeau.base.cache import Cache, atomic_write, default_cache, default_folder
from flambeau.base.flags import override


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "cache"


def entries(folder):
    return sorted(folder.glob("*.entry"))


def test_entries_outlive_the_object(folder):
    Cache(folder).put("key", b"data")
    again = Cache(folder)
    assert again.get("key") == b"data" and again.get("other") is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entries(folder)[0].stat().st_mode) == 0o600
    again.put("key", bytearray(b"newer"))
    assert Cache(folder).get("key") == b"newer" and len(entries(folder)) == 1


def test_clear_and_size(folder):
    cache = Cache(folder)
    cache.put("a", b"x" * 100)
    cache.put("b", b"")
    assert cache.get("b") == b"" and 100 < cache.size() < 400
    cache.clear()
    assert cache.size() == 0 and cache.get("a") is None and not os.listdir(folder)


def damage_bit(data):
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("damage", [
    damage_bit, lambda data: data[:-1], lambda data: b"", lambda data: data + b"x",
    lambda data: b"X" + data[1:], lambda data: data[:20]])
def test_a_damaged_entry_is_missing_and_removed(folder, damage):
    cache = Cache(folder)
    cache.put("key", b"data")
    path = entries(folder)[0]
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("key") is None and not path.exists()
    cache.put("key", b"data")
    assert cache.get("key") == b"data"


def test_an_entry_under_another_key_is_missing(folder):
    cache = Cache(folder)
    cache.put("a", b"code of a")
    a = entries(folder)[0]
    cache.put("b", b"code of b")
    b = next(path for path in entries(folder) if path != a)
    os.replace(a, b)
    assert cache.get("b") is None


def test_a_folder_that_others_can_write_is_refused(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    cache = Cache(folder)
    with pytest.warns(RuntimeWarning, match="can be written by other users") as caught:
        cache.put("key", b"data")
        assert cache.get("key") == b"data" and cache.size() == 4
    assert len(caught) == 1 and not os.listdir(folder)
    assert Cache(folder).refusal().startswith(str(folder))


def test_a_folder_of_another_user_is_refused(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert Cache(folder).get("key") is None


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="cannot be made"):
        cache.put("key", b"data")
    assert cache.get("key") == b"data"
    cache.clear()
    assert cache.get("key") is None


def test_a_full_disk_warns_once(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")
    cache = Cache(folder)
    monkeypatch.setattr(module.os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left") as caught:
        cache.put("a", b"1")
        cache.put("b", b"2")
    assert len(caught) == 1 and cache.get("a") == b"1" and cache.get("b") == b"2"
    assert not os.listdir(folder)


def test_what_a_killed_writer_left_is_swept(folder):
    Cache(folder).put("key", b"data")
    old, new = folder / ".a.1.partial", folder / ".b.2.partial"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (1, 1))
    Cache(folder).put("key", b"data")
    assert not old.exists() and new.exists()


def test_no_folder_means_memory_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = Cache(None)
        cache.put("key", b"data")
        assert cache.get("key") == b"data"


def test_the_default_follows_the_flag(folder, monkeypatch):
    with override(cache=str(folder)):
        assert default_folder() == str(folder) and default_cache() is default_cache()
        assert default_cache().folder == os.path.realpath(folder)
    with override(cache=None):
        monkeypatch.setenv("HOME", "/home/someone")
        assert default_folder() == "/home/someone/.cache/flambeau"


# ---- atomic_write
def test_writing_replaces_the_whole_file(tmp_path):
    path = tmp_path / "model"
    atomic_write(path, lambda file: file.write(b"first, longer"))
    path.chmod(0o640)
    atomic_write(str(path), lambda file: file.write(b"second"))
    assert path.read_bytes() == b"second" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("x")])
def test_any_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def writer(file):
        file.write(b"half of the new")
        raise error
    with pytest.raises(type(error)):
        atomic_write(path, writer)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["model"]


def test_links_are_followed_and_devices_stay(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    atomic_write(link, lambda file: file.write(b"new"))
    assert link.is_symlink() and target.read_bytes() == b"new"
    atomic_write("/dev/null", lambda file: file.write(b"gone"))
    assert not os.path.isfile("/dev/null")


def test_new_files_have_the_usual_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "model", lambda file: None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o640
