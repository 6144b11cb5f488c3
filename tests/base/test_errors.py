"""Messages that teach: their text, the user's line, and the types they subclass."""

import sys
import traceback
import types

import pytest

from flambeau.base import errors
from flambeau.base.errors import fail, message, trim_traceback
from flambeau.base.flags import override
from flambeau.base.source import PACKAGE_FOLDER, show_source, source_line, user_source


def inside(code, space=None, **names):
    """Run `code` as if it were a file of the package; returns its names."""
    space = {} if space is None else space
    space.update(names, __name__="flambeau.module")
    exec(compile(code, PACKAGE_FOLDER + "module.py", "exec"), space)
    return space


def test_all_parts_stand_in_order():
    with pytest.raises(errors.ShapeError) as caught:
        fail("matmul", "inner sizes differ", got="(2, 3) @ (2, 3)", want="3", hint="use .mT",
             kind=errors.ShapeError)
    first, hint, place = str(caught.value).splitlines()
    assert first == "[matmul] inner sizes differ: got (2, 3) @ (2, 3), wanted 3"
    assert hint == "  hint: use .mT"
    assert place.startswith("  at test_errors.py:") and "inner sizes differ" in place


def test_parts_can_be_left_out():
    assert message("sum", "no", got=0) == "[sum] no: got 0"
    assert message("sum", "no") == "[sum] no"
    assert message("sum", "no", source=("nowhere.py", 3)) == "[sum] no\n  at nowhere.py:3"


@pytest.mark.parametrize("kind, base", [
    (errors.ShapeError, RuntimeError), (errors.DTypeError, RuntimeError), (errors.DeviceError, RuntimeError),
    (errors.AxisError, IndexError), (errors.ArgumentError, TypeError), (errors.MissingExtra, ImportError)])
def test_errors_are_what_pytorch_raises(kind, base):
    with pytest.raises(base):
        fail("op", "problem", kind=kind)


def test_the_users_line_is_found_through_own_frames():
    own = inside("def outer(call): return inner(call)\ndef inner(call): return call()")
    file, line = own["outer"](user_source)
    assert file == __file__
    assert "(user_source)" in source_line(file, line)
    assert show_source((file, line)) == f"test_errors.py:{line}" and show_source(None) == ""


def test_generated_methods_count_as_own(monkeypatch):
    code = ("from dataclasses import dataclass\n@dataclass\nclass Box:\n    x: int\n"
            "    def __post_init__(self): self.source = user_source()\n")
    module = types.ModuleType("flambeau.module")    # where dataclass looks for its method's globals
    monkeypatch.setitem(sys.modules, "flambeau.module", module)
    inside(code, vars(module), user_source=user_source)
    assert module.Box(1).source[0] == __file__


def test_own_frames_are_dropped_unless_debugging():
    own = inside("def work(call): return call()\n"
                 "def door(call):\n    try: return work(call)\n    except Exception as e: raise trim(e)",
                 trim=trim_traceback)

    def user_callback():
        return 1 / 0
    with pytest.raises(ZeroDivisionError) as caught:
        own["door"](user_callback)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "work" not in names and "user_callback" in names
    with override(debug=True), pytest.raises(ZeroDivisionError) as caught:
        own["door"](user_callback)
    assert "work" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
