"""Switches: what is read, what is refused, that there are few."""

import pytest

from flambeau.base.flags import SWITCHES, flags, override, read_flags


def test_defaults_and_values():
    empty = read_flags({})
    assert (empty.cache, empty.threads, empty.no_pack, empty.debug) == (None, None, False, False)
    assert (empty.opt, empty.loader, empty.target) == (2, "own", "native")
    full = read_flags({"FLAMBEAU_CACHE": "/c", "FLAMBEAU_THREADS": "3", "FLAMBEAU_NO_PACK": "1",
                       "FLAMBEAU_OPT": "0", "FLAMBEAU_LOADER": "llvm", "FLAMBEAU_TARGET": "avx2",
                       "FLAMBEAU_DEBUG": ""})
    assert (full.cache, full.threads, full.no_pack, full.debug) == ("/c", 3, True, False)
    assert (full.opt, full.loader, full.target) == (0, "llvm", "avx2")


@pytest.mark.parametrize("variable, text", [
    ("THREADS", "0"), ("THREADS", "many"), ("OPT", "4"), ("LOADER", "gcc"),
    ("DEBUG", "perhaps"), ("TARGET", "sse")])
def test_bad_values_say_what_is_allowed(variable, text):
    wanted = rf"FLAMBEAU_{variable} cannot be read: got '{text}', wanted .*\n  hint: "
    with pytest.raises(ValueError, match=wanted):
        read_flags({"FLAMBEAU_" + variable: text})


def test_there_are_at_most_twelve_and_each_says_what_it_means():
    assert len(SWITCHES) <= 12
    for switch in SWITCHES:
        assert switch.meaning.endswith(".") and switch.variable.startswith("FLAMBEAU_")


def test_override_is_undone_and_assignment_refused():
    before = flags.threads
    with pytest.raises(KeyError), override(threads=7):
        assert flags.threads == 7
        raise KeyError
    assert flags.threads == before
    with pytest.raises(AttributeError, match=r"override\(threads="):
        flags.threads = 1
    with pytest.raises(AttributeError), override(thread=1):
        pass
