"""Python runs this file at the start of every process that a script under `flambeau run` starts.

There, too, `import torch` and `import torchvision` shall give the facade. Nothing is imported before a program asks
for it. A `sitecustomize` of the user's own, further down the path, runs as it would without this one.
"""

import importlib.machinery
import importlib.util
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


class FirstImport:
    """Waits for the first import of either and then makes way for the finder of `flambeau run`."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname.partition(".")[0] not in ("torch", "torchvision", "functorch", "flambeau"):
            return None
        if fullname == "flambeau":          # the copy that the parent process runs, wherever it is
            sys.meta_path.remove(FirstImport)
            return importlib.util.find_spec("flambeau") or find_package()
        from flambeau.cli.run import serve_facade

        serve_facade()
        return importlib.util.find_spec(fullname)


def find_package():
    """The spec of the package that this file belongs to."""
    package = os.path.dirname(os.path.dirname(FOLDER))
    return importlib.machinery.PathFinder.find_spec("flambeau", [os.path.dirname(package)])


def run_next():
    """Run the next `sitecustomize` on the path, if there is one."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]
sys.meta_path.insert(0, FirstImport)
run_next()
