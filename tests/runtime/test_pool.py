"""The thread pool: every index visited once, whatever the callers, forks, and other load."""

import os
import subprocess
import sys
import threading
import time

import pytest

from flambeau.runtime import threads
from flambeau.runtime._core import _pool_test_cost, _pool_test_cover, get_num_threads, set_num_threads

# Python 3.12 warns of every fork beside threads; that such forks work is what is tested here
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture(params=[1, 2, 5])
def thread_count(request):
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def assert_covers(extent, grain, **options):
    visits, starts = _pool_test_cover(extent, grain, **options)
    assert visits == b"\1" * extent
    assert all(start % max(grain, 1) == 0 for start in starts)
    return starts


@pytest.mark.parametrize("extent", [0, 1, 7, 64, 1000, 4099])
@pytest.mark.parametrize("grain", [1, 3, 64, 10_000])
@pytest.mark.parametrize("release_gil", [False, True])
def test_visits_every_index_once(thread_count, extent, grain, release_gil):
    starts = assert_covers(extent, grain, release_gil=release_gil)
    if extent == 0:
        assert starts == []
    elif thread_count == 1 or extent <= grain:
        assert starts == [0]
    else:
        assert 2 <= len(starts) <= 4 * thread_count
        gaps = {after - before for before, after in zip(starts, starts[1:])}
        assert len(gaps) == 1 and min(gaps) >= grain


def test_nonpositive_grain_counts_as_one(thread_count):
    assert_covers(100, 0)
    assert_covers(100, -5)


def test_nested_call_runs_inside_its_chunk(thread_count):
    starts = assert_covers(4000, 10, nested=1)
    assert len(starts) <= max(4 * thread_count, 4000 if thread_count == 1 else 0)


def test_many_small_jobs_in_a_row(thread_count):
    for extent in range(2, 1500):
        visits, _ = _pool_test_cover(extent, 1)
        assert visits == b"\1" * extent


def test_jobs_after_the_workers_fell_asleep(thread_count):
    for _ in range(20):
        time.sleep(0.002)
        assert_covers(100, 1, nanoseconds=20_000)


def test_several_python_threads(thread_count):
    failures = []

    def call():
        for extent in range(2, 200):
            visits, _ = _pool_test_cover(extent, 1, release_gil=extent % 3 != 0, nanoseconds=2000)
            if visits != b"\1" * extent:
                failures.append(extent)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert failures == []


def test_release_gil_lets_other_threads_run():
    order = []
    go = threading.Event()

    def other():
        go.wait()
        order.append("other")

    caller = threading.Thread(target=other)
    caller.start()
    go.set()
    _pool_test_cover(8, 1, release_gil=True, nanoseconds=100_000_000)
    order.append("job")
    caller.join()
    assert order == ["other", "job"]


def test_set_num_threads_while_a_job_runs():
    before = get_num_threads()
    results = []

    def job():
        results.append(_pool_test_cover(64, 1, release_gil=True, nanoseconds=2_000_000)[0])

    for count in (3, 1, 4, 2):
        caller = threading.Thread(target=job)
        caller.start()
        set_num_threads(count)
        caller.join()
        assert get_num_threads() == count
    set_num_threads(before)
    assert results == [b"\1" * 64] * 4


def test_set_num_threads_refuses_zero():
    with pytest.raises(ValueError, match=r"\[set_num_threads\] .* got 0"):
        set_num_threads(0)


def test_more_threads_than_processors_still_finish():
    before = get_num_threads()
    set_num_threads(16)
    for _ in range(20):
        assert_covers(1000, 1, nanoseconds=5000)
    set_num_threads(before)


def child_status(body):
    """Run body() in a forked child; its exit status (77: it hung)."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if body() else 2
        finally:
            os._exit(status)
    for _ in range(1000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return 77


def covers_in_child():
    return all(_pool_test_cover(200, 1, nanoseconds=1000)[0] == b"\1" * 200 for _ in range(20))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_its_own_pool(thread_count):
    assert_covers(100, 1)
    assert child_status(covers_in_child) == 0
    assert child_status(lambda: child_status(covers_in_child) == 0) == 0
    assert_covers(100, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_from_a_thread_while_a_job_runs(thread_count):
    statuses = []

    def fork():
        time.sleep(0.01)
        statuses.append(child_status(covers_in_child))
        statuses.append(child_status(lambda: set_num_threads(3) is None and covers_in_child()))

    forking = threading.Thread(target=fork)
    forking.start()
    while forking.is_alive():
        visits, _ = _pool_test_cover(40, 1, release_gil=True, nanoseconds=1_000_000)
        assert visits == b"\1" * 40
    assert statuses == [0, 0]


SPIN = "import time; end = time.time() + 20\nwhile time.time() < end: pass"


def test_busy_machine_delays_no_call_by_more_than_its_chunks():
    """Beside a spinning process on every processor, 1 ms of work takes a few times that, not a second."""
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(threads.usable_processors())]
    try:
        time.sleep(0.2)
        began = time.perf_counter()
        for _ in range(50):
            assert_covers(8, 1, nanoseconds=125_000)
        assert time.perf_counter() - began < 5
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_exits_cleanly_with_sleeping_running_and_daemon_threads():
    program = """
import threading, time
from flambeau.runtime._core import _pool_test_cover, set_num_threads
set_num_threads(4)
_pool_test_cover(100, 1)
def work():
    while True:
        _pool_test_cover(100, 1, release_gil=True, nanoseconds=100000)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("done")
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (finished.stdout, finished.stderr, finished.returncode) == ("done\n", "", 0)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_workers_block_signals():
    before = get_num_threads()
    set_num_threads(3)
    assert_covers(100, 1)
    masks = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status", encoding="ascii") as status:
            masks += [int(line.split()[1], 16) for line in status if line.startswith("SigBlk")]
    set_num_threads(before)
    signal_int, signal_term = 1 << 1, 1 << 14
    assert sum(1 for mask in masks if mask & signal_int and mask & signal_term) >= 2


def test_call_below_the_grain_costs_little():
    assert min(_pool_test_cost(8, 8, 2000) for _ in range(5)) < 1000


# ---- how many threads
def write(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_no_cgroup_means_no_quota(tmp_path):
    assert threads.cgroup_quota(tmp_path) is None


def test_cgroup_v2_takes_the_least_on_the_way_up(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/user/job\n")
    write(tmp_path, "sys/fs/cgroup/user/job/cpu.max", "max 100000\n")
    assert threads.cgroup_quota(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/user/cpu.max", "250000 100000\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "400000 100000\n")
    assert threads.cgroup_quota(tmp_path) == 2.5


def test_cgroup_v2_path_outside_the_container(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/../../elsewhere\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "150000 100000\n")
    assert threads.cgroup_quota(tmp_path) == 1.5


def test_cgroup_v1(tmp_path):
    write(tmp_path, "proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n3:memory:/x\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert threads.cgroup_quota(tmp_path) == 0.5
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    assert threads.cgroup_quota(tmp_path) is None


def test_default_is_the_least_of_quota_and_flag(monkeypatch):
    from flambeau.base.flags import override

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(threads, "cgroup_quota", lambda: 2.5)
    assert threads.usable_processors() == 3
    with override(threads=2):
        assert threads.default_threads() == 2
    with override(threads=100):
        assert threads.default_threads() == 3
