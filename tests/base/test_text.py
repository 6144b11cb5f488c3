"""Tables, readable numbers, and optional imports."""

import pytest

from flambeau.base.lazy import optional, require
from flambeau.base.text import human_bytes, human_count, human_time, table


def test_table():
    text = table([("relu", 12, "a"), ("matmul", 3)], header=("op", "calls", "why"))
    assert text.splitlines() == ["op      calls  why",
                                 "------  -----  ---",
                                 "relu       12  a",
                                 "matmul      3"]
    assert table([("a", "bb"), ("ccc", "d")], align="rc") == "  a  bb\nccc  d"
    assert table([]) == "" and table([], header=("a", "b")) == "a  b\n-  -"


@pytest.mark.parametrize("got, text", [
    (human_bytes(0), "0 B"), (human_bytes(1023), "1023 B"), (human_bytes(1024), "1 KiB"),
    (human_bytes(1024 ** 2 - 1), "1 MiB"), (human_bytes(-2048), "-2 KiB"), (human_bytes(3 << 60), "3072 PiB"),
    (human_count(999_999), "1 M"), (human_count(12_345), "12.3 k"), (human_count(0), "0"),
    (human_time(0), "0 ns"), (human_time(1e-6), "1 µs"), (human_time(0.9999), "1 s"),
    (human_time(59.99), "1 min 0 s"),
    (human_time(3599.9), "1 h 0 min"), (human_time(-0.5), "-500 ms"), (human_time(1.5), "1.5 s")])
def test_readable_numbers(got, text):
    assert got == text


def test_a_missing_extra_names_the_command():
    with pytest.raises(ImportError, match=r"needs no_such_package.*\n  hint: pip install 'flambeau\[demo\]'"):
        require("no_such_package.part", extra="demo")
    assert optional("no_such_package") is None
    assert require("json.decoder", extra="demo").JSONDecoder and optional("json")


def test_a_fault_inside_a_dependency_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "broken_dependency.py").write_text("import no_such_package_either")
    monkeypatch.syspath_prepend(tmp_path)
    for load in (optional, lambda module: require(module, "demo")):
        with pytest.raises(ModuleNotFoundError, match="no_such_package_either"):
            load("broken_dependency")
