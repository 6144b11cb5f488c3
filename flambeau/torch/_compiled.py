"""torch.compile as long as Flambeau has no capture of programs: what is compiled runs as it is, op by op.

Arguments are checked as PyTorch checks them, and what comes out has the form that PyTorch gives it: a module
becomes an OptimizedModule with the module as `_orig_mod`, a function a function of the same name.
"""

import contextlib
import functools
import inspect
import sys
import textwrap
import types

from flambeau.nn import Module

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
BACKENDS = ("cudagraphs", "inductor", "openxla", "tvm")
DEBUG_BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "aot_ts", "eager_noexcept",
    "eager_debug",
                  "aot_eager_default_partitioner", "onnxrt", "ipex", "hpu_backend")
registered = {}             # name -> function, of torch._dynamo.register_backend


class InvalidBackend(RuntimeError):
    """The name of a backend that nobody has."""


class OptimizedModule(Module):
    """What `torch.compile` makes of a module: `_orig_mod` is the module, other attributes are read and
    written there.

    Names in `state_dict()` begin with `_orig_mod.`; to save a model for use without it, save
    `compiled._orig_mod.state_dict()`.
    """

    _OWN = {"_orig_mod", "forward", "_modules", "_parameters", "_buffers"}

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        del self.__dict__["training"]
        self._modules["_orig_mod"] = mod

    @property
    def training(self):
        orig = self.__dict__.get("_modules", {}).get("_orig_mod")
        return True if orig is None else orig.training

    @training.setter
    def training(self, mode):
        orig = self.__dict__.get("_modules", {}).get("_orig_mod")
        if orig is not None:
            orig.training = mode

    def forward(self, *args, **kwargs):
        """Call the module."""
        return self._modules["_orig_mod"](*args, **kwargs)

    def __getattr__(self, name):
        modules = self.__dict__.get("_modules")
        if modules is None or "_orig_mod" not in modules:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return modules["_orig_mod"] if name == "_orig_mod" else getattr(modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        orig = self.__dict__.get("_modules", {}).get("_orig_mod")
        if name == "_orig_mod":
            self._modules[name] = value
        elif orig is None or name in self._OWN or name in self.__dict__ or name == "training":
            object.__setattr__(self, name, value)
        else:
            setattr(orig, name, value)

    def __delattr__(self, name):
        if name in self.__dict__:
            object.__delattr__(self, name)
        else:
            delattr(self._modules["_orig_mod"], name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None,
    disable=False):
    """`model` (a module, a function or a class) to be called as before; without it, a decorator.

    Flambeau does not capture programs yet: what is compiled runs as it is, op by op, with the same results.
        The arguments are checked and change nothing; a backend of one's own is not called.

    Raises:
        RuntimeError: for an unknown mode or backend, or both a mode and options.

    >>> @compile(mode="reduce-overhead")
    ... def double(x):
    ...     return x * 2
    >>> double(4)
    8
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, disable=disable)
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if isinstance(backend, str) and backend not in (*BACKENDS, *DEBUG_BACKENDS, *registered):
        raise InvalidBackend(
            f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` for those there are.")
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable or isinstance(model, type):
        return model
    return OptimizedModule(model) if isinstance(model, Module) else as_it_is(model)


def as_it_is(function):
    """A function that calls `function`, with its name, signature and documentation."""
    @functools.wraps(function, assigned=[name for name in functools.WRAPPER_ASSIGNMENTS
        if hasattr(function, name)])
    def run(*args, **kwargs):
        return function(*args, **kwargs)
    run._torchdynamo_orig_callable = function
    return run


def plain(fn=None, recursive=True, *, reason=None):
    """`fn` itself: nothing is compiled, so nothing needs to be left out. Without `fn`, a decorator; also a
    block.
    """
    return Unchanged() if fn is None else fn


class Unchanged:
    """A decorator and a block that change nothing."""

    def __call__(self, fn):
        return fn

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
           "aot_eager_then_compile")


class set_stance:           # noqa: N801 - PyTorch's name
    """What to do where something would be compiled; remembered nowhere. A call, a block or a decorator."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in STANCES:
            raise RuntimeError(
                f"invalid torch.compile stance {stance!r}, should be one of: {', '.join(STANCES)}")

    def __call__(self, fn):
        return fn

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def list_backends(exclude_tags=("debug", "experimental")):
    """The names that `backend=` takes; they all run programs as they are."""
    names = [*BACKENDS, *registered]
    return sorted(names if exclude_tags else [*names, *DEBUG_BACKENDS])


def register_backend(compiler_fn=None, name=None, tags=()):
    """Let `backend=` take a name; the function behind it is never called. Also a decorator."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    registered[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn):
    """The function of a registered name."""
    return registered.get(compiler_fn, compiler_fn) if isinstance(compiler_fn, str) else compiler_fn


class Config(types.ModuleType):
    """Settings that programs make and that have no effect: known ones can be read, any can be set.

    A module, as programs import it: `settings` makes a file one.
    """

    def __init__(self, name, **values):
        super().__init__(name)
        self.__dict__.update(values, _name=name)

    def __getattr__(self, name):
        raise AttributeError(f"{self.__dict__.get('_name')}.{name} does not exist")

    def __reduce__(self):
        return _config_of, (self._name, self.get_config_copy())

    def patch(self, changes=None, value=None, **more):
        """A block, or a decorator, with other settings: patch("name", value), patch({...}) or
        patch(name=value).
        """
        changes = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
        return _Patch(self, changes)

    def save_config(self):
        """The settings as bytes."""
        import pickle
        return pickle.dumps(self.get_config_copy())

    def load_config(self, data):
        """Take settings over that `save_config` gave."""
        import pickle
        self.__dict__.update(pickle.loads(data))        # noqa: S301 - of this process

    def get_config_copy(self):
        """The settings as a dict."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


def _config_of(name, values):
    return Config(name, **values)


def settings(module, name, **values):
    """Make the module of this name, which is being imported, the Config `name`."""
    module = sys.modules[module]
    module.__class__ = Config
    module.__dict__.update(values, _name=name)


class _Patch(contextlib.ContextDecorator):
    def __init__(self, config, changes):
        self.config, self.changes, self.before = config, changes, []

    def __enter__(self):
        known = self.config.__dict__
        self.before.append({name: known[name] for name in self.changes if name in known})
        known.update(self.changes)

    def __exit__(self, *error):
        for name in self.changes:
            self.config.__dict__.pop(name, None)
        self.config.__dict__.update(self.before.pop())
        return False


def refused(name, hint="run it as it is; Flambeau does not capture programs yet"):
    """A function that raises NotImplementedError, saying so."""
    def refuse(*args, **kwargs):
        raise NotImplementedError(
            f"[{name}] is not available in Flambeau: programs are not captured yet\n  hint: {hint}")
    refuse.__name__, refuse.__doc__ = name.rpartition(".")[2], "Refused: programs are not captured yet."
    refuse.only_refuses = True              # docs/coverage.md does not count it
    return refuse


def source_of(function):
    """The Python text of a function or class, or a note that there is none."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return f"# {getattr(function, '__qualname__', function)!s}: its source is not at hand\n"
