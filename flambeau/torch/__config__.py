"""torch.__config__"""


def show():
    """What Flambeau is built with, as text."""
    from flambeau import __version__
    from flambeau.compiler import target

    return f"Flambeau {__version__}\n  - kernels for: {target.current().name}\n"


def parallel_info():
    """The number of threads, as text."""
    from flambeau.runtime._core import get_num_threads

    return f"threads used by kernels: {get_num_threads()}\n"
