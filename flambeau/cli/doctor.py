"""`flambeau doctor`: what Flambeau finds on this machine, and the command for what is missing."""

import importlib
import importlib.metadata
import os
import platform
import re
import sys

from flambeau.base.text import human_bytes, table

PACKAGE = "flambeau"
REQUIRED = ("numpy", "llvmlite")


def run(options):
    sections = (("Software", software()), ("Processor", processor()), ("Threads", threads()),
                ("Kernels", kernels()), ("Extras", extras()))
    width = max(len(row[0]) for _, rows in sections for row in rows)
    for title, rows in sections:
        print(title)
        for line in table([(row[0].ljust(width), *row[1:]) for row in rows]).splitlines():
            print("  " + line)
    return 0 if native_heart_error() is None and all(map(version, REQUIRED)) else 1


def version(distribution):
    """The installed version as a string, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def software():
    error = native_heart_error()
    heart = "built" if error is None else f"MISSING ({error}): pip install --force-reinstall {PACKAGE}"
    return [(PACKAGE, version(PACKAGE) or "not installed; running from its source folder"),
            ("Python", f"{platform.python_version()} ({sys.executable})"),
            ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
            *((name, version(name) or f"MISSING: pip install {name}") for name in REQUIRED),
            ("native heart", heart)]


def native_heart_error():
    """Why flambeau.runtime._core cannot be imported, or None."""
    try:
        importlib.import_module("flambeau.runtime._core")
    except ImportError as error:
        return str(error)
    return None


def processor():
    from flambeau.compiler import target

    chosen = target.current()
    features = " ".join(sorted(chosen.features)) or "none that kernels use"
    return [("model", processor_model()),
            ("features", features),
            ("target", f"{chosen.name}: {chosen.triple}, vectors of {chosen.vector_bytes} bytes")]


def processor_model():
    """The processor's name as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "unknown"


def threads():
    from flambeau.base.flags import flags
    from flambeau.runtime.threads import cgroup_quota, default_threads

    quota = cgroup_quota()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [("used by kernels", str(default_threads())),
            ("processors", f"{os.cpu_count()}, of which this process may use {allowed}"),
            ("cgroup quota", "none" if quota is None else f"{quota:g} processors"),
            ("FLAMBEAU_THREADS", "not set" if flags.threads is None else str(flags.threads))]


def kernels():
    from flambeau.base.cache import default_cache
    from flambeau.base.flags import flags

    cache = default_cache()
    refusal = cache.refusal()
    found = f"not in use: {refusal}" if refusal else f"{cache.folder}, {human_bytes(cache.size())}, writable"
    if not refusal and not os.access(cache.folder, os.W_OK):
        found = f"{cache.folder} is not writable; set FLAMBEAU_CACHE to another folder"
    return [("cache", found), ("kernel pack", kernel_pack()), ("loader", flags.loader)]


def kernel_pack():
    """What there is of the kernels compiled at installation, or the command that makes them."""
    folder = importlib.import_module("flambeau.compiler.packfile").FOLDER
    files = [entry for entry in os.scandir(folder) if entry.is_file()] if os.path.isdir(folder) else []
    if not files:
        return "MISSING: flambeau pack"
    return f"{folder}, {human_bytes(sum(entry.stat().st_size for entry in files))}"


def extras():
    """One row for each package that an extra brings: (name, extras, version or the command)."""
    wanted = {}
    for requirement in importlib.metadata.requires(PACKAGE) or () if version(PACKAGE) else ():
        name = re.match(r"[\w.-]+", requirement)[0]
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", requirement)
        if extra and name != PACKAGE:
            wanted.setdefault(name, []).append(extra[1])
    if not wanted:
        return [("unknown", "install Flambeau to see them: pip install -e .")]
    return [(name, ", ".join(names), version(name) or f"missing: pip install 'flambeau[{names[0]}]'")
            for name, names in sorted(wanted.items())]
