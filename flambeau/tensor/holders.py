"""Who refers to what: names of objects as a reader of the program would write them, found from its variables
downwards.

Frames, modules, containers, attributes, closures, exceptions and modules' parameters are followed; the parts
of this package are not.
"""

import functools
import gc
import sys
import types
from collections import deque

from flambeau.base.source import PACKAGE_FOLDER, is_own
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor

__all__ = ["internal", "names_of", "tensors_in_containers", "walk_frames"]

MOST_VISITED, DEEPEST = 300_000, 12
_ATOMS = frozenset((int, float, complex, bool, str, bytes, bytearray, type(None), type(...), types.ModuleType,
                    types.BuiltinFunctionType, types.CodeType, range, slice))
_MACHINERY = tuple(f"{__name__.partition('.')[0]}.{part}" for part in (
    "base", "types", "ir", "runtime", "ops", "compiler", "transform"))       # packages of no user's objects
_OPTIMIZED = 1          # co_flags of a function: its locals are not a dict


def walk_frames():
    """Every running frame of the user's, of all threads, the innermost first."""
    for frame in sys._current_frames().values():
        while frame is not None:
            if not is_own(frame):
                yield frame
            frame = frame.f_back


def _locals(frame):
    """The local variables, without leaving a copy of them in the frame."""
    names = frame.f_locals
    found = dict(names)
    if frame.f_code.co_flags & _OPTIMIZED and sys.version_info < (3, 13):
        names.clear()           # before 3.13 it is a copy that the frame would keep, and the tensors in it
    return found


def _roots(frames):
    """(name, where, object) of all variables, those of running functions first."""
    known = {id(vars(module)) for module in list(sys.modules.values())
             if isinstance(module, types.ModuleType)}
    for frame in frames:
        # of a program that is run by another one: exec, a notebook
        if id(frame.f_globals) not in known:
            known.add(id(frame.f_globals))
            yield from ((name, "", value) for name, value in list(frame.f_globals.items())
                        if name[:2] != "__")
        if frame.f_code.co_flags & _OPTIMIZED:
            for name, value in _locals(frame).items():
                yield name, f" in {frame.f_code.co_name}()", value
    main = sys.modules.get("__main__")
    modules = [main] + [m for m in list(sys.modules.values()) if m is not main]
    for module in modules:
        file = getattr(module, "__file__", None) or ""
        if not isinstance(module, types.ModuleType) or file.startswith(PACKAGE_FOLDER):
            continue
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                yield name if module is main else f"{module.__name__}.{name}", "", value


def _children(value):       # noqa: C901 - one case a kind of container
    """[(how the name goes on, object)] of what an object holds."""
    kind = type(value)
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in list(value.items())]
    if isinstance(value, (list, tuple, deque)):
        return [(f"[{i}]", item) for i, item in enumerate(list(value))]
    if isinstance(value, (set, frozenset)):
        return [("{...}", item) for item in list(value)]
    if isinstance(value, Tensor):
        found = [(".grad", value.grad)] if value.grad is not None else []
        return found + [(f".{name}", item) for name, item in (value._extra or {}).items()]
    if kind is types.FunctionType:
        cells = zip(value.__code__.co_freevars, value.__closure__ or ())
        return [(f" (its variable {name})", cell) for name, cell in cells] + [
            (" (a default)", item) for item in value.__defaults__ or ()]
    if kind is types.CellType:
        try:
            return [("", value.cell_contents)]
        except ValueError:
            return []
    if kind is types.MethodType:
        return [(".__self__", value.__self__)]
    if kind is functools.partial:
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if kind is types.GeneratorType:
        frame = value.gi_frame
        return [] if frame is None else [(f" (its variable {name})", item)
                                         for name, item in _locals(frame).items()]
    if isinstance(value, BaseException):
        return [(f".__traceback__ ({name} in {where})", item) for where, name, item in _in_traceback(value)] \
            + [(".args", value.args)]
    return _attributes(value)


def _in_traceback(error):
    trace = error.__traceback__
    while trace is not None:
        if not is_own(trace.tb_frame) and trace.tb_frame.f_code.co_flags & _OPTIMIZED:
            for name, item in _locals(trace.tb_frame).items():
                yield trace.tb_frame.f_code.co_name, name, item
        trace = trace.tb_next


def _attributes(value):
    found = []
    if isinstance(value, type):
        if value.__module__.split(".")[0] == "flambeau":
            return []
        return [(f".{name}", item) for name, item in list(vars(value).items()) if not name.startswith("__")]
    members = getattr(value, "__dict__", None)
    if isinstance(members, dict):
        for name, item in list(members.items()):
            if name in ("_parameters", "_buffers", "_modules") and isinstance(item, dict):
                # as the module's user names them
                found += [(f".{key}", part) for key, part in item.items()]
            else:
                found.append((f".{name}", item))
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            item = getattr(value, name, None)
            if item is not None and not name.startswith("__"):
                found.append((f".{name}", item))
    return found


def names_of(wanted, frames=None):
    """{id: [names]} of the objects whose ids are in `wanted`, up to three names each, the shortest way
    first."""
    found, seen = {}, set()
    queue = deque((name, where, value, 0) for name, where, value in _roots(walk_frames()
                                                                           if frames is None else frames))
    while queue and len(seen) < MOST_VISITED:
        name, where, value, depth = queue.popleft()
        identity = id(value)
        if identity in wanted:
            names = found.setdefault(identity, [])
            if len(names) < 3 and name + where not in names:
                names.append(name + where)
        if type(value) in _ATOMS or identity in seen or depth > DEEPEST:
            continue
        seen.add(identity)
        try:
            queue.extend((name + suffix, where, item, depth + 1) for suffix, item in _children(value)
                         if type(item) not in _ATOMS)
        except Exception:       # a property or a key's repr that raises is no reason to stop
            continue
    return found


def tensors_in_containers(frames=()):
    """(tensors, nodes, {id of a tensor: its containers}) of everything that the garbage collector and the
    frames know."""
    tensors, nodes, holders = {}, {}, {}
    own = (tensors, nodes, holders)
    objects = gc.get_objects()
    # what running frames hold is not visited through them
    running = [_locals(frame) for frame in frames]
    for holder in [*objects, *running]:
        if holder is objects or any(holder is mine for mine in own):
            continue
        for item in gc.get_referents(holder):
            if isinstance(item, Tensor):
                tensors[id(item)] = item
                holders.setdefault(id(item), []).append(holder)
            elif isinstance(item, _core.Node):
                nodes[id(item)] = item
    del objects
    # those with attributes are followed
    for tensor in [t for t in gc.get_objects() if isinstance(t, Tensor)]:
        tensors[id(tensor)] = tensor
    todo = list(tensors.values())
    while todo:
        tensor = todo.pop()
        for inner in (tensor.grad, tensor._base):
            if inner is not None and id(inner) not in tensors:
                tensors[id(inner)] = inner
                todo.append(inner)
    return tensors, nodes, holders


def internal(objects, levels=7):
    """The ids of those objects that hang on this package's own functions, classes and modules: its caches."""
    starts, inside = {id(each): {id(each)} for each in objects}, set()
    current = list(objects)
    for _ in range(levels):
        for each in current:
            if _is_ours(each):
                inside |= starts[id(each)]
        mine = {id(mine) for mine in (objects, current, starts, inside)}
        above, reached = [], {}
        for holder in gc.get_objects():
            if id(holder) in mine or type(holder) is types.FrameType:
                continue
            for item in gc.get_referents(holder):
                if id(item) in starts:
                    reached.setdefault(id(holder), set()).update(starts[id(item)])
                    above.append(holder)
        current, starts = above, reached
    return inside


def _is_ours(value):
    package = __name__.partition(".")[0] + "."
    if isinstance(value, (types.FunctionType, type)):
        return str(value.__module__).startswith(package)
    if isinstance(value, dict):
        return str(value.get("__name__")).startswith(package) and "__spec__" in value
    return type(value).__module__.startswith(_MACHINERY) and not isinstance(value, Tensor)
