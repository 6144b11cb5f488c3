"""Module: a tree of layers that owns parameters and buffers.

Assigning a `Parameter`, a buffer or another `Module` to an attribute registers it; everything else (moving,
saving, listing, printing) walks these three tables. Names, keys, rules and messages are PyTorch's.
"""

from collections import OrderedDict

from flambeau.nn import state
from flambeau.nn.hooks import EVERYWHERE, add_hook, call_with_hooks, registered
from flambeau.nn.names import indent_block, package_name, type_name
from flambeau.nn.parameter import Buffer, Parameter
from flambeau.runtime import _core
from flambeau.tensor import Tensor, empty_like, no_grad
from flambeau.types.device import Device
from flambeau.types.dtype import DType


class Module:
    """Base of all layers and models: assign members in `__init__`, compute in `forward`.

    Example::

        >>> class Twice(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layer = nn.Linear(4, 4)
        ...     def forward(self, x):
        ...         return self.layer(self.layer(x))
    """

    training: bool
    call_super_init = False
    _version = 1                # of the class, which a state_dict notes in its `_metadata`
    _TABLES = ("_parameters", "_buffers", "_modules")
    _HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs",
              "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called", "_state_dict_hooks",
              "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
              "_backward_hooks", "_backward_pre_hooks")

    def __init__(self, *args, **kwargs):
        name = type(self).__name__
        if not self.call_super_init and kwargs:
            raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if not self.call_super_init and args:
            raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        members = self.__dict__
        members["training"] = True
        members["_non_persistent_buffers_set"] = set()
        for table in Module._TABLES:
            members[table] = {}
        for table in Module._HOOKS:
            members[table] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """Compute the module's output; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function')

    __call__ = _core.instance_method(_core.call_module)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.__getattr__ is Module.__getattr__ and cls.__getattribute__ is object.__getattribute__:
            _core.quick_attributes(cls)

    # ------------------------------------------------------------------ registration

    def register_parameter(self, name, param):
        """Add a parameter, or None to reserve its name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                            f"({package_name()}.nn.Parameter or None required)")
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                             f"created explicitly. To express '{name}' as a function of another Tensor, "
                             "compute the value in the forward() method.")
        self._parameters[name] = registered("parameter", self, name, param) if EVERYWHERE["parameter"] else param

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that belongs to the module's state but is not trained.

        Args:
            name: attribute name.
            tensor: a tensor, or None to reserve the name.
            persistent: whether it is part of the `state_dict`.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                            f"({package_name()} Tensor or None required)")
        self._buffers[name] = registered("buffer", self, name, tensor) if EVERYWHERE["buffer"] else tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name, module):
        """Add a child module, or None to reserve its name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered("module", self, name, module) if EVERYWHERE["module"] else module

    def register_module(self, name, module):
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind, name, table):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type_name(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ------------------------------------------------------------------ attributes

    def __getattr__(self, name):
        members = self.__dict__
        for table in Module._TABLES:
            entries = members.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        members = self.__dict__
        parameters, modules = members.get("_parameters"), members.get("_modules")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._buffers, modules)
            self.register_parameter(name, value)
        elif isinstance(value, Buffer) and parameters is not None:
            self._forget(name, modules, parameters)
            self.register_buffer(name, value, value.persistent)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            if name in parameters:
                self._refuse(name, value, "parameter", "nn.Parameter")
            self._forget(name, self._buffers, parameters)
            modules[name] = registered("module", self, name, value) if EVERYWHERE["module"] else value
        elif parameters is None:
            object.__setattr__(self, name, value)
        elif name in parameters:
            if value is not None:
                self._refuse(name, value, "parameter", "nn.Parameter")
            parameters[name] = None
        elif name in modules:
            if value is not None:
                self._refuse(name, value, "child module", "nn.Module")
            modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                self._refuse(name, value, "buffer", f"nn.Buffer, {package_name()}.Tensor")
            self.register_buffer(name, value, name not in self._non_persistent_buffers_set)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name, *tables):
        """Drop `name` from the attributes and the given tables, before it is registered elsewhere."""
        for table in (self.__dict__, *tables):
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    @staticmethod
    def _refuse(name, value, role, wanted):
        raise TypeError(f"cannot assign '{type_name(value)}' as {role} '{name}' "
                        f"({package_name()}.{wanted} or None expected)")

    def __delattr__(self, name):
        for table in Module._TABLES:
            if name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __setstate__(self, state):
        """Take over the members of a pickled or copied module, perhaps one of an older version with fewer tables."""
        self.__dict__.update(state)
        for table in Module._HOOKS:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def __dir__(self):
        names = set(object.__dir__(self))
        for table in Module._TABLES:
            names.update(self.__dict__.get(table, ()))
        return sorted(name for name in names if not name[:1].isdigit())

    # ------------------------------------------------------------------ paths

    def get_submodule(self, target):
        """The module at a dotted path, as `model.get_submodule("encoder.0.linear")`."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Put `module` at a dotted path; with `strict` there must be one already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if hasattr(parent, name):
            if not isinstance(getattr(parent, name), Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        elif strict:
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        owner, name = self._owner_of(target)
        if not isinstance(getattr(owner, name), Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return getattr(owner, name)

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        owner, name = self._owner_of(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return owner._buffers[name]

    def _owner_of(self, target):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        return owner, name

    # ------------------------------------------------------------------ members

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Yield (dotted name, module) for this module (named `prefix`) and all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate=True):
        """Yield this module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self):
        """Yield (name, module) of the direct children, each module once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self):
        """Yield the direct children."""
        for _, child in self.named_children():
            yield child

    def _named_members(self, members_of, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = (self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
                   if recurse else [(prefix, self)])
        for path, module in modules:
            for name, member in members_of(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Yield (dotted name, parameter), each parameter once."""
        yield from self._named_members(lambda module: module._parameters.items(),
                                       prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """Yield the parameters; this is what an optimizer takes."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Yield (dotted name, buffer), each buffer once."""
        yield from self._named_members(lambda module: module._buffers.items(),
                                       prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Yield the buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ------------------------------------------------------------------ modes and gradients

    def train(self, mode=True):
        """Switch this module and all below it to training (`mode=True`) or evaluation."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self):
        """Switch to evaluation: dropout is off, batch norm uses its running statistics."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Let autograd compute gradients for all parameters, or not."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drop the gradients of all parameters, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    # ------------------------------------------------------------------ conversion

    def apply(self, function):
        """Call `function(module)` on every module, children first; return this module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def _apply(self, function, recurse=True):
        """Replace the data of every parameter, gradient and buffer by `function` of it."""
        if recurse:
            for child in self.children():
                child._apply(function)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            gradient = parameter.grad
            with no_grad():
                parameter.data = function(parameter)
                if gradient is not None:
                    gradient.data = function(gradient)
                    parameter.grad = gradient
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = function(buffer)
        return self

    def to(self, *args, **kwargs):
        """Move and cast in place: `to(device)`, `to(dtype)`, `to(device, dtype)` or `to(tensor)`.

        Only floating point and complex members change their dtype; `memory_format` is for members of 4 or 5 dims.
        """
        memory_format = kwargs.get("memory_format")
        device, dtype = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError("nn.Module.to only accepts floating point or complex "
                            f"dtypes, but got desired dtype={dtype}")

        def convert(tensor):
            castable = tensor.is_floating_point() or tensor.is_complex()
            wanted = dtype if dtype is not None and castable else tensor.dtype
            place = tensor.device if device is None else device
            if memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(device=place, dtype=wanted, memory_format=memory_format)
            return tensor.to(device=place, dtype=wanted)
        return self._apply(convert)

    def compile(self, *args, **kwargs):
        """Nothing changes: programs are not captured yet, so the module runs as it is; arguments are those of compile."""

    def to_empty(self, *, device, recurse=True):
        """Move to `device` without copying values; the members are uninitialised afterwards."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse=recurse)

    def cpu(self):
        """Move to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device=None):
        """Move to a CUDA device."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type):
        """Cast every parameter and buffer to `dst_type`."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _cast_floating(self, method):
        return self._apply(lambda tensor: getattr(tensor, method)() if tensor.is_floating_point() else tensor)

    def float(self):
        """Cast floating members to float32."""
        return self._cast_floating("float")

    def double(self):
        """Cast floating members to float64."""
        return self._cast_floating("double")

    def half(self):
        """Cast floating members to float16."""
        return self._cast_floating("half")

    def bfloat16(self):
        """Cast floating members to bfloat16."""
        return self._cast_floating("bfloat16")

    def share_memory(self):
        """Move the members to shared memory."""
        return self._apply(lambda tensor: tensor.share_memory_())

    # ------------------------------------------------------------------ hooks

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call `hook(module, args)` before `forward`; what it returns replaces the arguments."""
        return add_hook(self._forward_pre_hooks, hook, prepend=prepend,
                        marks=[(self._forward_pre_hooks_with_kwargs, with_kwargs)])

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Call `hook(module, args, output)` after `forward`; what it returns replaces the output."""
        return add_hook(self._forward_hooks, hook, prepend=prepend,
                        marks=[(self._forward_hooks_with_kwargs, with_kwargs),
                               (self._forward_hooks_always_called, always_call)])

    def register_full_backward_hook(self, hook, prepend=False):
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        Both are tuples, None where an argument is no tensor; what it returns replaces `grad_input`.
        """
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Call `hook(module, grad_output)` when the gradients of the outputs are known; what it returns
        replaces them."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """An older name of `register_full_backward_hook`."""
        return self.register_full_backward_hook(hook)

    def register_state_dict_pre_hook(self, hook):
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Call `hook(module, state_dict, prefix, local_metadata)` afterwards; it edits in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Call `hook(module, state_dict, prefix, ...)` before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return add_hook(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook):
        """Call `hook(module, incompatible_keys)` after loading; it may edit the two lists."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    # ------------------------------------------------------------------ state

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """An ordered dict of all parameters and persistent buffers under their dotted names.

        The tensors share memory with the module; they are detached unless `keep_vars`.
        """
        return state.save_tree(self, destination, prefix, keep_vars)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy the values of `state_dict` into the module.

        Args:
            state_dict: a mapping as `state_dict()` returns it.
            strict: whether missing or unexpected keys are an error.
            assign: take over the given tensors instead of copying their values.

        Returns:
            A named tuple `(missing_keys, unexpected_keys)`.

        Raises:
            RuntimeError: listing every key that is missing, unexpected or of another shape.
        """
        return state.load_tree(self, state_dict, strict, assign)

    def get_extra_state(self):
        """Further state to be saved under `_extra_state`; a subclass that has some defines it."""
        raise RuntimeError("get_extra_state is called only where a subclass defines it")

    def set_extra_state(self, extra_state):
        """Take back what `get_extra_state` returned."""
        raise RuntimeError("set_extra_state is called only where a subclass defines it")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        state.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict,
                              missing_keys, unexpected_keys, error_msgs):
        state.load_own(self, state_dict, prefix, local_metadata, strict,
                       missing_keys, unexpected_keys, error_msgs)

    # ------------------------------------------------------------------ printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """The text between the parentheses of `repr`; a subclass defines it."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {indent_block(repr(child), 2)}" for name, child in self._modules.items()]
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        lines = "\n  ".join(extra_lines + child_lines)
        return f"{self._get_name()}(\n  {lines}\n)"


_core.quick_attributes(Module)
_core.set_module_call(call_with_hooks)


def parse_to(*args, **kwargs):
    """The (device, dtype) that the arguments of `Module.to` name, None where they name none."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other = kwargs.pop("tensor", None)
    for ignored in ("non_blocking", "copy", "memory_format"):
        kwargs.pop(ignored, None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    for value in args:
        if isinstance(value, Tensor):
            other = value
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, (str, Device)) or (isinstance(value, int) and not isinstance(value, bool)):
            device = value
        elif value is not None and not isinstance(value, bool):
            raise TypeError(f"to() got {type_name(value)}; it takes a device, a dtype or a tensor")
    if other is not None:
        device, dtype = other.device, other.dtype
    return device, dtype
