"""`flambeau cache [size | clear]`: compiled kernels kept on disk, and schedules chosen by autotuning."""

from flambeau.base.cache import default_cache
from flambeau.base.text import human_bytes, human_time, table
from flambeau.compiler import tune


def run(options):
    cache, chosen = default_cache(), tune.table()
    refusal = cache.refusal()
    if refusal:
        print(f"not in use: {refusal}")
        return 1
    size = human_bytes(cache.size() + chosen.files.size())
    if options.action == "clear":
        cache.clear()
        chosen.clear()
        print(f"{cache.folder}: {size} removed")
        return 0
    print(f"{cache.folder}: {size}")
    entries = sorted(chosen.entries(), key=lambda entry: (entry["op"], str(entry["shapes"])))
    if entries:
        header = "op", "shapes", "threads", "choice", "default", "chosen"
        print("\n" + table(map(row, entries), header, "llllrr"))
    return 0


def row(entry):
    """What is shown of an entry of the table of compiler.tune."""
    shapes = ", ".join(" x ".join(map(str, shape)) for shape in entry["shapes"])
    choice = ", ".join(f"{name} {value}" for name, value in entry["choice"].items()) or "default"
    return (entry["op"], shapes, entry["threads"], choice, human_time(entry["default"]),
            human_time(entry["seconds"]))
