"""A module called with other parameters and buffers than its own."""

from contextlib import contextmanager


@contextmanager
def swapped(module, parameters_and_buffers):
    """The module's members replaced by name while the block runs."""
    own = []
    try:
        for name, value in parameters_and_buffers.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            for table in (owner._parameters, owner._buffers):
                if last in table:
                    own.append((table, last, table[last]))
                    table[last] = value
                    break
        yield module
    finally:
        for table, name, value in reversed(own):
            table[name] = value


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True,
                    strict=False):
    """`module(*args, **kwargs)` with parameters and buffers by dotted name in the place of its own."""
    known = dict(module.named_parameters(remove_duplicate=False))
    known |= dict(module.named_buffers(remove_duplicate=False))
    unknown = [name for name in parameters_and_buffers if name not in known]
    missing = [name for name in known if name not in parameters_and_buffers]
    if strict and (unknown or missing):
        raise RuntimeError(f"Error(s) in strict functional_call: unexpected keys {unknown}, missing keys "
                           f"{missing}")
    given = dict(parameters_and_buffers)
    if tie_weights:
        for name, value in parameters_and_buffers.items():
            given |= {other: value for other,
                      member in known.items() if member is known.get(name) and other not in given}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, given):
        return module(*args, **(kwargs or {}))
