"""Reading and writing the state of a module tree: the work behind `state_dict` and `load_state_dict`.

A state dict is an ordered dict from dotted names to tensors, with exactly PyTorch's names. Every module
handles its own entries (`_save_to_state_dict`, `_load_from_state_dict`); the functions here do so by
default and report all problems at once.
"""

from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from flambeau.nn.names import package_name
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor, no_grad

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict(strict=False)` could not match."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


_IncompatibleKeys = IncompatibleKeys
IncompatibleKeys.__name__ = IncompatibleKeys.__qualname__ = "_IncompatibleKeys"         # the name that is printed


def persistent_state(module):
    """The module's own parameters and persistent buffers by name, without those that are None."""
    state = dict(module._parameters)
    for name, buffer in module._buffers.items():
        if name not in module._non_persistent_buffers_set:
            state[name] = buffer
    return {name: tensor for name, tensor in state.items() if tensor is not None}


def has_extra_state(module, method):
    """Whether the module's class brings its own `get_extra_state` or `set_extra_state`."""
    from flambeau.nn.module import Module
    return getattr(type(module), method, None) is not getattr(Module, method)


def save_own(module, destination, prefix, keep_vars):
    """Enter the module's own state, without its children, into `destination`."""
    for name, tensor in persistent_state(module).items():
        destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if has_extra_state(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE] = module.get_extra_state()


def save_tree(module, destination, prefix, keep_vars):
    """Enter the state of the module and its children into `destination`; return it.

    Its attribute `_metadata` has the version of each module's class, by the module's name.
    """
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        result = hook(module, destination, prefix, metadata)
        if result is None:
            continue
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("state_dict post-hook must return None")
        destination = result
    return destination


def load_own(module, state, prefix, metadata, strict, missing, unexpected, errors):
    """Load the module's own state, without its children; problems go into the three lists.

    Without `strict` keys that do not match are not reported.
    """
    for hook, with_module in module._load_state_dict_pre_hooks.values():
        owner = (module,) if with_module else ()
        hook(*owner, state, prefix, metadata, strict, missing, unexpected, errors)
    if not strict:
        missing, unexpected = [], []
    own = persistent_state(module)
    assign = metadata.get("assign_to_params_buffers", False)
    for name, tensor in own.items():
        key = prefix + name
        if key in state:
            _load_tensor(module, name, key, tensor, state[key], assign, errors)
        else:
            missing.append(key)
    extra = prefix + EXTRA_STATE
    if has_extra_state(module, "set_extra_state"):
        if extra in state:
            module.set_extra_state(state[extra])
        else:
            missing.append(extra)
    elif extra in state:
        unexpected.append(extra)
    unexpected.extend(_unknown_keys(module, own, state, prefix, extra))


def _unknown_keys(module, own, state, prefix, extra):
    for key in state:
        if not key.startswith(prefix) or key == extra:
            continue
        first, dot, _ = key[len(prefix):].partition(".")
        if first not in (module._modules if dot else own):
            yield key


def _load_tensor(module, name, key, tensor, source, assign, errors):
    if not isinstance(source, Tensor):
        errors.append(f'While copying the parameter named "{key}", expected {package_name()}.Tensor or '
                      f"Tensor-like object from checkpoint but received {type(source)}")
        return
    if tensor.dim() == 0 and tuple(source.shape) == (1,):
        source = source[0]
    if tuple(source.shape) != tuple(tensor.shape):
        errors.append(f"size mismatch for {key}: copying a param with shape {source.shape} from checkpoint, "
                      f"the shape in current model is {tensor.shape}.")
        return
    try:
        with no_grad():
            if assign:
                setattr(module, name, _as_member(tensor, source))
            else:
                tensor.copy_(source)
    except Exception as error:
        errors.append(f'While copying the parameter named "{key}", '
                      f"whose dimensions in the model are {tensor.shape} and "
                      f"whose dimensions in the checkpoint are {source.shape}, "
                      f"an exception occurred : {error.args}.")


def _as_member(tensor, source):
    """`source` in the role of `tensor`: a Parameter with the same requires_grad, or a plain buffer."""
    if not isinstance(tensor, Parameter):
        return source
    if not isinstance(source, Parameter):
        return Parameter(source, requires_grad=tensor.requires_grad)
    return source.requires_grad_(tensor.requires_grad)


def load_tree(module, state, strict, assign):
    """Load `state` into the module and its children; raise RuntimeError listing everything that failed."""
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    missing, unexpected, errors = [], [], []
    tied = _tied_members(module) if assign else ()
    versions = getattr(state, "_metadata", None) or {}
    _load_children(module, OrderedDict(state), "", assign, versions, missing, unexpected, errors)
    for places in tied:
        owner, name = places[-1]                # as with copying, the last value stays
        for other, other_name in places[:-1]:
            setattr(other, other_name, getattr(owner, name))
    if strict and unexpected:
        errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
    if strict and missing:
        errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    if errors:
        listed = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}")
    return IncompatibleKeys(missing, unexpected)


def _tied_members(module):
    """The parameters and buffers that stand at several places: lists of (module, name)."""
    places = {}
    for owner in module.modules():
        for table in (owner._parameters, owner._buffers):
            for name, member in table.items():
                if member is not None:
                    places.setdefault(id(member), []).append((owner, name))
    return [found for found in places.values() if len(found) > 1]


def _quoted(keys):
    return ", ".join(f'"{key}"' for key in keys)


def _load_children(module, state, prefix, assign, versions, missing, unexpected, errors):
    metadata = {**versions.get(prefix[:-1], {}), **({"assign_to_params_buffers": True} if assign else {})}
    module._load_from_state_dict(state, prefix, metadata, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is None:
            continue
        child_prefix = f"{prefix}{name}."
        child_state = {key: value for key, value in state.items() if key.startswith(child_prefix)}
        _load_children(child, child_state, child_prefix, assign, versions, missing, unexpected, errors)
    keys = IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                "new values, if incompatible_keys need to be modified, it should be done inplace.")
