"""Live tensors: what is left after a block and who holds it; why an allocation failed."""

import functools
import gc
import os
import subprocess
import sys
import threading

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.memory import LeakError, leak_check, live_tensors, record_lines, set_limit
from flambeau.tensor.alive import verdict

KEPT = []
FRESH = os.environ.get("FLAMBEAU_TEST_ALONE") == "1"        # every live object is looked through: in a small process
alone = pytest.mark.skipif(not FRESH, reason="runs in a process of its own")


@pytest.mark.skipif(FRESH, reason="starts the others")
def test_in_a_process_of_its_own():
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__], text=True,
                          env=os.environ | {"FLAMBEAU_TEST_ALONE": "1"}, capture_output=True, timeout=300)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def clean():
    KEPT.clear()
    gc.collect()
    yield
    KEPT.clear()
    set_limit(None)


@pytest.fixture
def limit():
    """Only so many more bytes than now."""
    def more(count):
        gc.collect()
        fl.memory.empty_cache()
        set_limit(fl.memory.stats()["live_bytes"] + count)
    return more


# ---------------------------------------------------------------------------------- leaks
@alone
def test_a_clean_block_has_none():
    model = nn.Linear(3, 2)
    with leak_check() as check:
        with fl.no_grad():
            model(fl.randn(5, 3)).sum().item()
    assert check.count == check.nbytes == 0 and check.leaks == [] and "no tensor" in str(check)


@alone
def test_a_tensor_in_a_list_is_named_with_its_bytes_and_line():
    with leak_check() as check:
        KEPT.append(fl.zeros(1000))
        KEPT.append(fl.zeros(10)[2:5])
    assert check.count == 2 and check.nbytes == 4040
    first, second = check.leaks
    assert (first.shape, first.dtype, first.nbytes) == ((1000,), fl.float32, 4000)
    assert any(name.endswith("KEPT[0]") for name in first.names) and any(name.endswith("KEPT[1]")
                                                                         for name in second.names)
    assert first.source[0] == __file__ and first.source[1] + 1 == second.source[1]
    text = str(check)
    assert "KEPT[0]" in text and "test_alive.py" in text and "KEPT.append(fl.zeros(1000))" in text


class Holder:
    """An object with attributes, and one with slots."""

    class Slots:
        __slots__ = ("value",)

    def __init__(self, tensor):
        self.tensor = tensor
        self.inner = Holder.Slots()


def ways():
    """(a function that keeps a tensor somewhere, what its name must contain)."""
    def in_closure(t):
        KEPT.append(lambda: t)

    def in_error(t):
        try:
            raise ValueError
        except ValueError as error:
            KEPT.append(error)

    def in_generator(t):
        def walk(inner):
            yield 1
            yield inner
        made = walk(t)
        next(made)
        KEPT.append(made)

    def in_slot(t):
        KEPT.append(Holder(None))
        KEPT[0].inner.value = t

    def in_attribute(t):
        KEPT.append(fl.ones(1))
        KEPT[0].note = t

    def in_module(t):
        KEPT.append(nn.Sequential(nn.Module()))
        KEPT[0][0].register_buffer("scale", t)

    def in_gradient(t):
        KEPT.append(nn.Parameter(fl.ones(25)))
        KEPT[0].grad = t
    return {"closure": (in_closure, "KEPT[0] (its variable t)"),
            "error": (in_error, "KEPT[0].__traceback__ (t in in_error)"),
            "generator": (in_generator, "KEPT[0] (its variable inner)"),
            "slot": (in_slot, "KEPT[0].inner.value"),
            "attribute": (in_attribute, "KEPT[0].note"), "module": (in_module, "KEPT[0].0.scale"),
            "gradient": (in_gradient, "KEPT[0].grad"), "object": (lambda t: KEPT.append(Holder(t)),
                                                                  "KEPT[0].tensor"),
            "dict": (lambda t: KEPT.append({"a": [t]}), "KEPT[0]['a'][0]"),
            "partial": (lambda t: KEPT.append(functools.partial(print, t)), "KEPT[0].args[0]")}


@alone
@pytest.mark.parametrize("way", ways())
def test_who_holds_it_is_named(way):
    keep, name = ways()[way]
    with leak_check() as check:
        keep(fl.zeros(25))
    found = [leak for leak in check.leaks if leak.nbytes == 100]
    assert any(name in text for leak in found for text in leak.names), check


@alone
def test_a_variable_of_a_running_function_is_named():
    with leak_check() as check:
        left = fl.zeros(100)
    assert check.leaks[0].names[0] == "left in test_a_variable_of_a_running_function_is_named()"
    assert left is not None


@alone
def test_looking_keeps_nothing_alive():
    def run():
        local = fl.zeros(100_000)
        live_tensors()
        before = fl.memory.stats()["live_bytes"]
        del local
        return before - fl.memory.stats()["live_bytes"]
    assert run() >= 400_000


@alone
def test_the_graph_is_named_as_holder():
    x = fl.ones(1000, requires_grad=True)
    with leak_check() as check:
        KEPT.append((x.exp() * 2).sum())
    big = next(leak for leak in check.leaks if leak.nbytes == 4000)
    assert big.graph == ("exp",) and big.shape == (1000,)
    assert "the graph behind" in big.held_by and "KEPT[0]" in big.held_by
    assert not big.names


@alone
def test_cycles_are_counted_apart():
    with leak_check() as check:
        first, second = Holder(fl.zeros(1000)), Holder(None)
        first.other, second.other = second, first
        del first, second
    assert check.count == 0 and check.cycle_bytes == 4000 and "cycles" in str(check)


@alone
def test_raises_where_asked_and_errors_pass_through():
    with pytest.raises(LeakError, match=r"KEPT\[0\]"):
        with leak_check(raises=True):
            KEPT.append(fl.zeros(3))
    with pytest.raises(KeyError):
        with leak_check(raises=True):
            KEPT.append(fl.zeros(3))
            raise KeyError("mine")
    with leak_check(raises=True):
        fl.zeros(3)


@alone
def test_blocks_nest_and_what_was_before_does_not_count():
    KEPT.append(fl.zeros(7))
    with leak_check() as outer:
        KEPT.append(fl.zeros(11))
        with leak_check() as inner:
            KEPT.append(fl.zeros(13))
    assert [leak.shape for leak in inner.leaks] == [(13,)]
    assert sorted(leak.shape for leak in outer.leaks) == [(11,), (13,)]
    KEPT[0] = None


@alone
def test_tensors_of_other_threads_are_found():
    inside, done = threading.Event(), threading.Event()

    def work():
        mine = fl.zeros(500)
        inside.set()
        done.wait()
        return mine
    with leak_check() as check:
        thread = threading.Thread(target=work)
        thread.start()
        inside.wait()
    done.set()
    thread.join()
    assert any(name == "mine in work()" for leak in check.leaks for name in leak.names)


@alone
def test_live_tensors_are_the_largest_first_with_lines_where_recorded():
    plain = fl.zeros(300_000)
    with record_lines():
        noted = fl.zeros(400_000)
    found = live_tensors()
    assert [live.nbytes for live in found] == sorted((live.nbytes for live in found), reverse=True)
    by_size = {live.nbytes: live for live in found}
    assert by_size[plain.nbytes].line == "" and by_size[noted.nbytes].line.startswith("test_alive.py:")
    assert len(live_tensors(1)) == 1


# ---------------------------------------------------------------------------------- failures
@alone
def test_too_big_for_the_limit(limit):
    with record_lines():
        KEPT.append(fl.zeros(50_000))
    limit(2 ** 20)
    with pytest.raises(MemoryError) as caught:
        fl.zeros(1 << 28)
    text = str(caught.value)
    assert "verdict: too big: 1 GiB" in text and "50000" in text
    assert "KEPT[0]" in text and "test_alive.py:" in text
    fl.zeros(1000)          # and what fits still works


@alone
def test_kept_by_the_graph(limit):
    model = nn.Sequential(nn.Linear(100, 500), nn.Tanh(), nn.Linear(500, 10))
    limit(8 * 2 ** 20)
    losses = []
    with pytest.raises(MemoryError) as caught:
        for _ in range(1000):
            losses.append(model(fl.ones(100, 100)).sum())
    text = str(caught.value)
    assert "verdict: kept by the graph" in text and "losses[0]" in text and "no_grad" in text
    listed = text[text.index("the largest of"):].splitlines()[3:]
    assert sum(line.startswith("    ") and "B " in line for line in listed) == 10


@alone
def test_full_of_what_variables_hold(limit):
    limit(8 * 2 ** 20)
    with pytest.raises(MemoryError, match="verdict: full"):
        for _ in range(100):
            KEPT.append(fl.zeros(1 << 18))


@alone
def test_the_cache_is_given_back_before_the_limit_is_reached(limit):
    limit(8 * 2 ** 20)
    for size in (1 << 20, 1 << 19, 3 << 18, 1 << 20):
        fl.zeros(size)          # 4 MB, 2 MB, 3 MB, 4 MB, one after the other


@alone
def test_verdicts():
    gib = 1 << 30
    assert verdict(20 * gib, 0, 0, 16 * gib).startswith("too big")
    assert verdict(gib, 15.5 * gib, 12 * gib, 16 * gib).startswith("kept by the graph")
    assert verdict(gib, 4 * gib, 0, 16 * gib).startswith("fragmented")
    assert verdict(gib, 15.5 * gib, gib, 16 * gib).startswith("full")


@alone
def test_nothing_is_lost_by_a_failure(limit):
    x = fl.ones(1 << 18, requires_grad=True)
    y = x.exp()
    limit(2 ** 19)
    before = fl.memory.stats()["live_bytes"]
    for _ in range(3):
        with pytest.raises(MemoryError):
            y.sin()
    gc.collect()
    assert fl.memory.stats()["live_bytes"] == before
    set_limit(None)
    y.sum().backward()
    assert fl.equal(x.grad, y.detach())


@alone
def test_limits_are_checked():
    with pytest.raises(ValueError, match="positive"):
        set_limit(0)
    with pytest.raises(ValueError, match="fraction"):
        fl.memory.set_per_process_memory_fraction(1.5)
    fl.memory.set_per_process_memory_fraction(0.5)
    assert "limit" in fl.memory.summary() and set_limit(None) > 1 << 20
    assert set_limit(None) is None
