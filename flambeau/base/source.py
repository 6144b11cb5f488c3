"""The user's line: which file and line outside this package led to here.

IR nodes carry it, error messages show it. It is found on the interpreter's stack when an op is called, so
it must be cheap: one string comparison per frame, no `inspect`, and the text of the line is read only when
shown.
"""

import linecache
import os
import sys

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PACKAGE = __name__.partition(".")[0]
_NATIVE = _PACKAGE + "/runtime/"        # how compiled frames name their files
# what calls a program's functions in other processes and threads, or waits for them: no line of the program
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_STARTERS = tuple(_LIBRARY + name for name in (
    "importlib" + os.sep, "multiprocessing" + os.sep, "concurrent" + os.sep, "threading.py", "selectors.py"))
_OWN = (PACKAGE_FOLDER, _NATIVE, "<frozen ", *_STARTERS)


def is_own(frame):
    """True if `frame` runs code of this package, or of what imports, starts and waits in Python's library."""
    file = frame.f_code.co_filename
    if file.startswith(_OWN):
        return True
    if file == "<string>":      # a generated method (dataclass, namedtuple), or the user's `python -c`
        module = frame.f_globals.get("__name__", "")
        return module == _PACKAGE or module.startswith(_PACKAGE + ".")
    return False


def user_source(depth=1):
    """The (file, line) of the innermost frame outside this package; None if there is none.

    `depth` frames, counted from this function's caller, are skipped unseen (1: start at the caller).
    """
    try:
        frame = sys._getframe(depth)
    except ValueError:
        return None
    while frame is not None:
        if not is_own(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def source_line(file, line):
    """The text of a line without its indentation; '' if the file cannot be read."""
    return linecache.getline(file, line).strip()


def show_source(source):
    """A (file, line) pair as 'train.py:12', the file's folder left out; '' for None."""
    if source is None:
        return ""
    file, line = source
    return f"{os.path.basename(file)}:{line}"
