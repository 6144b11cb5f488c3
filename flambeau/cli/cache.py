"""`flambeau cache [size | clear]`: the compiled kernels kept on disk."""

from flambeau.base.cache import default_cache
from flambeau.base.text import human_bytes


def run(options):
    cache = default_cache()
    refusal = cache.refusal()
    if refusal:
        print(f"not in use: {refusal}")
        return 1
    size = human_bytes(cache.size())
    if options.action == "clear":
        cache.clear()
        print(f"{cache.folder}: {size} removed")
    else:
        print(f"{cache.folder}: {size}")
    return 0
