"""How many threads the pool may use: processors of this process, the cgroup's quota, FLAMBEAU_THREADS."""

import os


def default_threads():
    """Number of threads that the pool starts with: the least of usable_processors() and FLAMBEAU_THREADS."""
    from flambeau.base.flags import flags

    processors = usable_processors()
    return max(1, min(processors, flags.threads)) if flags.threads else processors


def usable_processors():
    """Number of processors that this process may keep busy: affinity and cgroup quota, rounded up."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    quota = cgroup_quota()
    if quota is not None:
        processors = min(processors, int(-(-quota // 1)))
    return max(1, processors)


def cgroup_quota(root="/"):
    """Processors that the cgroups (version 1 or 2) of this process allow, as a float; None: no limit.

    A group's limit binds its children too, so the least one on the way to the root counts. In a container the
    path may lie outside what is mounted; then only the mount's own top is seen, which is the container's.
    """
    limits = []
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and controllers == "":
            limits += [_quota_v2(folder) for folder in _upwards(os.path.join(root, "sys/fs/cgroup"), path)]
        elif "cpu" in controllers.split(","):
            for name in {"cpu", controllers}:
                mount = os.path.join(root, "sys/fs/cgroup", name)
                limits += [_quota_v1(folder) for folder in _upwards(mount, path)]
    limits = [limit for limit in limits if limit is not None]
    return min(limits) if limits else None


def _upwards(mount, path):
    """The folders from mount/path up to mount."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return [os.path.join(mount, *parts[:count]) for count in range(len(parts), -1, -1)]


def _quota_v2(folder):
    quota, _, period = _read(os.path.join(folder, "cpu.max")).partition(" ")
    return _ratio(quota, period)


def _quota_v1(folder):
    quota, period = (_read(os.path.join(folder, f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    return _ratio(quota, period)


def _ratio(quota, period):
    try:
        quota, period = int(quota), int(period)
    except ValueError:          # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
