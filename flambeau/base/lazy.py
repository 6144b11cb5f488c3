"""Optional and slow dependencies: imported where they are used, named with their install command if missing.

    rich = require("rich.progress", extra="demo")       # MissingExtra tells the command
    scipy = optional("scipy")                            # None if it is not installed
"""

import importlib

from flambeau.base.errors import MissingExtra, fail


def require(module, extra):
    """The module called `module`; MissingExtra (an ImportError) names `pip install 'flambeau[extra]'`."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not _is_part(error.name, module):
            raise                           # it is installed, but something that it imports is not
    fail("import", f"this needs {module.partition('.')[0]}, which is not installed",
         hint=f"pip install 'flambeau[{extra}]'", kind=MissingExtra)


def optional(module):
    """The module called `module`, or None if it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not _is_part(error.name, module):
            raise
        return None


def _is_part(missing, module):
    return missing is not None and (module == missing or module.startswith(missing + "."))


class LazyModule:
    """Stands for a module that is imported when an attribute of it is first read.

    >>> numpy = LazyModule("numpy")
    """

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(importlib.import_module(self._name), attribute)
