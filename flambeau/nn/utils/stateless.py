"""A module called with other parameters and buffers than its own."""

from contextlib import contextmanager

from flambeau.tensor import stack


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
    """`module(*args, **kwargs)` with parameters and buffers by dotted name in the place of its own.

    parameters_and_buffers: a dict, or a sequence of dicts with different names.
    """
    if not isinstance(parameters_and_buffers, dict):
        merged = {}
        for part in parameters_and_buffers:
            twice = merged.keys() & part.keys()
            if twice:
                raise ValueError(f"functional_call got {sorted(twice)} in two dicts; each name belongs in one")
            merged |= part
        parameters_and_buffers = merged
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


def replace_all_batch_norm_modules_(root):
    """Let all batch norms inside a module forget their running statistics: they use those of the batch, always.

    Running statistics are written in place, which a vmap over examples cannot do. Returns the module.
    """
    for module in root.modules():
        if getattr(module, "track_running_stats", False):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def stack_module_state(models):
    """(parameters, buffers) of several modules of one kind: each name with the values of all modules stacked.

    For a vmap over an ensemble; the stacked parameters are leaves that require gradients as their models' do.

    >>> models = [nn.Linear(2, 3) for _ in range(4)]
    >>> parameters, buffers = fl.func.stack_module_state(models)
    >>> parameters["weight"].shape
    flambeau.Size([4, 3, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {name: _stacked(name, [dict(model.named_parameters())[name] for model in models])
                  for name, _ in models[0].named_parameters()}
    buffers = {name: stack([dict(model.named_buffers())[name] for model in models])
               for name, _ in models[0].named_buffers()}
    return parameters, buffers


def _stacked(name, members):
    if any(member.requires_grad != members[0].requires_grad for member in members):
        raise RuntimeError(f"Expected {name} of each model to have the same .requires_grad")
    return stack([member.detach() for member in members]).requires_grad_(members[0].requires_grad)
