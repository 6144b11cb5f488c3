"""Containers: modules that hold other modules, or parameters, in order or by name."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain
from operator import index as as_index

from flambeau.nn.module import Module
from flambeau.nn.names import indent_block, type_name
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor


def _position(index, size):
    """`index` as a number from 0; IndexError if it is outside."""
    index = as_index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


class _Numbered(Module):
    """Children in order. Their names are '0', '1', ... unless an OrderedDict named them."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def _name_at(self, index):
        return list(self._modules)[_position(index, len(self))]

    def __setitem__(self, index, module):
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index):
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._modules = {str(number): module for number, module in enumerate(self)}

    def append(self, module):
        """Add a module at the end; return this container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Add several modules at the end; return this container."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend should be called with an "
                            f"iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index, module):
        """Put `module` before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._modules = {str(number): each for number, each in enumerate(modules)}
        return self

    def pop(self, index):
        """Remove and return the module, or modules, at `index`."""
        removed = self[index]
        del self[index]
        return removed


class Sequential(_Numbered):
    """Modules called one after the other, each with the output of the one before.

    Args:
        args: the modules, or one OrderedDict that names them.

    Example::

        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model[:2]
        Sequential(
          (0): Linear(in_features=4, out_features=8, bias=True)
          (1): ReLU()
        )
    """

    def __init__(self, *args):
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(name if named else str(name), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def _check_sequential(self, other):
        if not isinstance(other, Sequential):
            raise ValueError("add operator supports only objects of Sequential class, "
                             f"but {type(other)} is given.")

    def __add__(self, other):
        self._check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._check_sequential(other)
        return self.extend(other)

    def _check_factor(self, factor):
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")

    def __mul__(self, factor):
        self._check_factor(factor)
        return Sequential(*(list(self) * factor))

    __rmul__ = __mul__

    def __imul__(self, factor):
        self._check_factor(factor)
        return self.extend(list(self) * (factor - 1))


class ModuleList(_Numbered):
    """A list whose modules are registered; it is not called itself."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(chain(self, other))

    def __repr__(self):
        """Equal neighbours are shown once, as `(0-3): 4 x Linear(...)`."""
        runs = []                                               # [first, last, text]
        for number, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = number
            else:
                runs.append([number, number, text])
        lines = []
        for first, last, text in runs:
            shown = f"({first}): {text}"
            if first != last:
                shown = f"({first}-{last}): {last - first + 1} x {text}"
            lines.append("\n  " + indent_block(shown, 2))
        return f"{self._get_name()}({''.join(lines)}{chr(10) if lines else ''})"


class ModuleDict(Module):
    """A dict from names to registered modules, in the order of insertion."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key):
        """Remove and return the module of that name."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """Pairs of name and module."""
        return self._modules.items()

    def update(self, modules):
        """Add the modules of a mapping or of (name, module) pairs, replacing equal names."""
        for key, module in pairs_of("ModuleDict", modules):
            self[key] = module


def pairs_of(owner, entries):
    """The (key, value) pairs of a mapping or an iterable of pairs."""
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(f"{owner}.update should be called with an iterable of key/value pairs, "
                        f"but got {type(entries).__name__}")
    pairs = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(f"{owner} update sequence element #{number} should be Iterable; "
                            f"is {type(entry).__name__}")
        entry = tuple(entry)
        if len(entry) != 2:
            raise ValueError(f"{owner} update sequence element #{number} has length {len(entry)}; "
                             "2 is required")
        pairs.append(entry)
    return pairs


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value, type_of):
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(each) for each in value.shape)
    return f"{kind} containing: [{type_of(value)} of size {size}]"


def _dtype_of(tensor):
    return tensor.dtype


class ParameterList(Module):
    """A list whose tensors are registered as parameters; other values are kept as they are."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self):
        return self._size

    def __iter__(self):
        return (getattr(self, str(number)) for number in range(self._size))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_position(index, self._size)))

    def __setitem__(self, index, value):
        setattr(self, str(_position(index, self._size)), _as_parameter(value))

    def append(self, value):
        """Add a value at the end; return this list."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Add several values at the end; return this list."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError("ParameterList.extend should be called with an iterable, "
                            f"but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def extra_repr(self):
        return "\n".join(f"  ({number}): {_describe(value, _dtype_of)}" for number, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors are registered as parameters; other values are kept as they are."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key, value):
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string "
                            f"(type is '{type(key).__name__}').")
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        """The names."""
        return self._keys.keys()

    def values(self):
        """The values."""
        return [self[key] for key in self._keys]

    def items(self):
        """Pairs of name and value."""
        return [(key, self[key]) for key in self._keys]

    def get(self, key, default=None):
        """The value of that name, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key, default=None):
        """The value of that name, which becomes `default` if there was none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key):
        """Remove and return the value of that name."""
        value = self[key]
        del self[key]
        return value

    def clear(self):
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def copy(self):
        """A new ParameterDict of the same parameters."""
        return ParameterDict(self.items())

    def update(self, parameters):
        """Add the values of a mapping or of (name, value) pairs; a plain dict is taken in sorted order."""
        pairs = pairs_of("ParameterDict", parameters)
        plain = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        for key, value in sorted(pairs, key=lambda pair: pair[0]) if plain else pairs:
            self[key] = value

    def extra_repr(self):
        return "\n".join(f"  ({key}): {_describe(value, type_name)}" for key, value in self.items())

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict should not be called.")
