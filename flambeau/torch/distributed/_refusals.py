"""How names answer whose work needs several processes: they can be imported, named and asked for, not
called."""


def functions(module, *names):
    """name -> function that refuses."""
    return {name: _function(module, name) for name in names}


def classes(module, *names):
    """name -> class, for annotations and isinstance, whose construction is refused."""
    return {name: _class(module, name) for name in names}


def _function(module, name):
    def refuse(*args, **kwargs):
        refused(module, name)

    refuse.only_refuses = True  # docs/coverage.md does not count it
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: there is one process."
    return refuse


def _class(module, name):
    def construct(cls, *args, **kwargs):
        refused(module, name)

    return type(
        name,
        (),
        {
            "__new__": construct,
            "only_refuses": True,
            "__module__": module.replace("flambeau.", "", 1),
            "__doc__": "Refused: there is one process.",
        },
    )


def refused(module, name):
    """Raise a RuntimeError that names `name` and says how to go on."""
    path = module.removeprefix("flambeau.torch.")
    raise RuntimeError(
        f"[{path}.{name}] working in several processes is not available yet\n"
        "  hint: ask torch.distributed.is_available() first"
    )


def uninitialized(*names):
    """name -> function that raises what PyTorch raises before `init_process_group`."""
    return {name: _uninitialized(name) for name in names}


def _uninitialized(name):
    def refuse(*args, **kwargs):
        raise ValueError(
            f"[distributed.{name}] Default process group has not been initialized: working in several "
            "processes is not available yet\n  hint: ask torch.distributed.is_initialized() first"
        )

    refuse.only_refuses = True
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: there is no process group."
    return refuse
