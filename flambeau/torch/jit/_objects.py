"""Scripts and traces: objects of PyTorch's form around Python that runs as it is."""

import contextlib
import functools
import inspect
import os
import textwrap
import threading

from flambeau.nn import Module
from flambeau.tensor import Tensor
from flambeau.torch._compiled import refused, source_of
from flambeau.torch.futures import Future

_tracing = threading.local()
_NO_FILE = ("save the weights with torch.save(model.state_dict(), path) and load them with "
            "model.load_state_dict(torch.load(path)), or the module with torch.save(model, path)")


class Error(RuntimeError):
    """An error of a script; here Python's own errors come through."""


class TracerWarning(Warning):
    """Never given here."""

    @staticmethod
    def ignore_lib_warnings():
        """Does nothing."""


class TracingCheckError(Exception):
    """Never raised here."""


class Graph:
    """What stands for the graph of a script: its Python text to print. There are no nodes to walk."""

    def __init__(self, code):
        self._code = code

    def __str__(self):
        return "graph():\n  # there is none: the Python runs as it is\n" + textwrap.indent(self._code, "  ")

    __repr__ = __str__

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return refused(f"torch.Graph.{name}", "`str(graph)` is the Python text")()


class ScriptFunction:
    """A function, called as it is."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.name = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args, **kwargs):
        return self.__wrapped__(*args, **kwargs)

    @property
    def code(self):
        """The Python text."""
        return source_of(self.__wrapped__)

    @property
    def graph(self):
        """Text that says what is run, in the place of a graph."""
        return Graph(self.code)

    inlined_graph = graph
    save = refused("torch.jit.ScriptFunction.save", _NO_FILE)
    save_to_buffer = refused("torch.jit.ScriptFunction.save_to_buffer", _NO_FILE)


class ScriptMethod(ScriptFunction):
    """A method of a ScriptModule, called as it is."""


class ScriptModule(Module):
    """The base of what `script` and `trace` make of a module, and of modules written for it."""

    def __getattr__(self, name):
        if name == "forward":                   # asked for by hand: Python finds it in the class
            return ScriptMethod(_python_of(self).forward)
        return super().__getattr__(name)

    @property
    def code(self):
        """The Python text of `forward`."""
        return source_of(inspect.unwrap(getattr(type(_python_of(self)), "forward")))

    @property
    def graph(self):
        """Text that says what is run, in the place of a graph."""
        return Graph(self.code)

    inlined_graph = graph
    save = refused("torch.jit.ScriptModule.save", _NO_FILE)
    save_to_buffer = refused("torch.jit.ScriptModule.save_to_buffer", _NO_FILE)

    @property
    def original_name(self):
        """The name of the class that it was written as."""
        return type(_python_of(self)).__name__


class RecursiveScriptModule(ScriptModule):
    """A module, called as it is: its parameters, buffers, parts and hooks are those of the module."""

    def __init__(self, module):
        super().__init__()
        for name, value in module.__dict__.items():
            if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")) or name in (
                    "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.__dict__[name] = value
        self.__dict__["_python"] = module
        self.__dict__.pop("training", None)

    @property
    def training(self):
        return _python_of(self).training

    @training.setter
    def training(self, mode):
        _python_of(self).training = mode

    def forward(self, *args, **kwargs):
        """Run the module's `forward`."""
        return self.__dict__["_python"].forward(*args, **kwargs)

    def __getattr__(self, name):
        if "_python" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "forward":
            return ScriptModule.__getattr__(self, name)
        return getattr(self.__dict__["_python"], name)

    def __setattr__(self, name, value):
        python = self.__dict__.get("_python")
        if python is None or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(python, name, value)

    def extra_repr(self):
        return f"original_name={self.original_name}"

    def _get_name(self):
        return "RecursiveScriptModule"

    def get_debug_state(self, *args, **kwargs):
        """None."""


class TracedModule(ScriptModule):
    """A kind of ScriptModule to be named; `trace` gives a TopLevelTracedModule."""


class TopLevelTracedModule(RecursiveScriptModule, TracedModule):
    """What `trace` makes of a module."""

    def _get_name(self):
        return type(_python_of(self)).__name__


def _python_of(module):
    return module.__dict__.get("_python", module)


# ---------------------------------------------------------------------------------- making them
def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """A module or function as an object of PyTorch's form, which runs its Python; a class as it is. Also a
    decorator.

    >>> @script
    ... def double(x):
    ...     return x * 2
    >>> double(4)
    8
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        return RecursiveScriptModule(obj)
    if isinstance(obj, type):
        if issubclass(obj, Module):
            raise RuntimeError(
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
        return obj
    if inspect.isfunction(obj) or inspect.ismethod(obj) or inspect.isbuiltin(obj):
        return ScriptFunction(obj)
    if isinstance(obj, (dict, list)) or not callable(obj):
        raise TypeError(f"[torch.jit.script] a module, a function or a class is expected, got {type(obj)}")
    return ScriptFunction(obj)


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
    strict=True,
          _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None,
          _store_inputs=True):
    """Run `func` once with the example inputs, and give it as an object of PyTorch's form, which runs its
    Python.

    Control flow is not frozen into the path that the example took. RuntimeError if the example gives anything
    but tensors and lists, tuples and dicts of them.
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    if example_kwarg_inputs is None and example_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    args = () if example_inputs is None else example_inputs
    args = (args,) if isinstance(args, (Tensor, dict)) else tuple(args)
    made = _run_traced(func, args, example_kwarg_inputs or {})
    if not _are_tensors(made):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
            f"functions, got {type(made).__name__}")
    return TopLevelTracedModule(func) if isinstance(func, Module) else ScriptFunction(func)


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
    strict=True, **more):
    """`trace` with example inputs for several methods: {"forward": ..., "helper": ...}."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    for name, args in inputs.items():
        _run_traced(getattr(mod, name), (args,) if isinstance(args, (Tensor, dict)) else tuple(args), {})
    return TopLevelTracedModule(mod)


def _run_traced(function, args, kwargs):
    before = is_tracing()
    _tracing.on = True
    try:
        return function(*args, **kwargs)
    finally:
        _tracing.on = before


def _are_tensors(value):
    if isinstance(value, (list, tuple)):
        return all(map(_are_tensors, value))
    if isinstance(value, dict):
        return all(map(_are_tensors, value.values()))
    return isinstance(value, Tensor) or value is None


def script_if_tracing(fn):
    """`fn` itself."""
    return fn


class CompilationUnit:
    """Functions from text. Not Python's text in general, so refused where there is any."""

    def __init__(self, lang=None, _frames_up=0):
        if lang is not None:
            refused("torch.jit.CompilationUnit", "write the functions as Python and call them")()


def is_scripting():
    """False: there is no script, Python runs."""
    return False


def is_tracing():
    """True while `trace` runs its example."""
    return getattr(_tracing, "on", False)


# ---------------------------------------------------------------------------------- using them
def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """The module as it is; RuntimeError unless it is in evaluation mode."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to "
            "script your 'nn.Module'.")
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your "
            "module before freezing.")
    return mod


def optimize_for_inference(mod, other_methods=None):
    """The module as it is."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("optimize_for_inference expects a ScriptModule as input.")
    return mod


def fork(func, *args, **kwargs):
    """Run `func` now; its result as a future."""
    future = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:      # noqa: BLE001 - wait() raises it
        future.set_exception(error)
    return future


def wait(future):
    """The result of a future of `fork`."""
    return future.wait()


def save(m, f, _extra_files=None):
    """Refused."""
    refused("torch.jit.save", _NO_FILE)()


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Refused: the program in such a file cannot be run. ValueError if there is no such file."""
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise ValueError(f"The provided filename {f} does not exist")
    refused("torch.jit.load",
        "make the module in Python, and give it the weights that torch.load(path) finds in the "
            "file")()


export_opnames = refused("torch.jit.export_opnames")


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A block that changes nothing."""
    yield


class strict_fusion:            # noqa: N801 - PyTorch's name
    """A block that changes nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
