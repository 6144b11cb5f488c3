"""torch.utils.collect_env: what a report of a fault should say of the machine."""

import platform
import sys

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info():
    """Versions, processor, threads and optional libraries as lines of text."""
    from importlib import metadata

    from flambeau.torch import __config__, __version__

    def version(package):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "not installed"

    lines = [f"PyTorch version: {__version__}", "Is debug build: False", "CUDA used to build PyTorch: None",
        "",
             f"OS: {platform.platform()}", f"Python version: {sys.version.split()[0]}",
        f"CPU: {platform.machine()}",
             "Is CUDA available: False", "", __config__.show(), __config__.parallel_info(),
        "Versions of relevant libraries:"]
    lines += [f"[pip3] {name}=={version(name)}" for name in ("numpy", "llvmlite", "scipy")]
    return "\n".join(lines)


def main():
    """Print it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
