"""From PyTorch's values and functions to Flambeau's, and back to NumPy."""


import types

import numpy
import torch

from flambeau import torch as facade

DTYPES = {getattr(torch, name): getattr(facade, name) for name in (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128")}


class Untranslatable(Exception):
    """Something that only PyTorch has."""


def memory_of(x):
    """All elements of a tensor's memory, as a 1-d tensor."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


def tensor(x):
    """A tensor of ours with the same elements, strides and wish for gradients."""
    if x.layout is not torch.strided or x.dtype not in DTYPES:
        return sparse(x)
    plain = x.detach().resolve_conj().resolve_neg()
    flat = memory_of(plain).clone()
    if plain.dtype is torch.bfloat16:
        made = facade.from_numpy(flat.view(torch.int16).numpy()).view(facade.bfloat16)
    else:
        made = facade.from_numpy(flat.numpy())
    if plain.numel():
        made = made.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
    else:
        made = facade.empty(tuple(plain.shape), dtype=DTYPES[plain.dtype])
    made = made.detach()
    return made.requires_grad_() if x.requires_grad else made


def sparse(x):
    made = _sparse(x)
    return made.requires_grad_() if x.requires_grad else made


def _sparse(x):
    if x.layout is torch.sparse_coo:
        x = x.coalesce() if x.is_coalesced() else x
        return facade.sparse_coo_tensor(tensor(x._indices()), tensor(x._values().detach()), tuple(x.shape))
    if x.layout is torch.sparse_csr:
        return facade.sparse_csr_tensor(tensor(x.crow_indices()), tensor(x.col_indices()), tensor(x.values().detach()),
                                        tuple(x.shape))
    raise Untranslatable(f"a tensor of {x.dtype}, {x.layout}")


def value(x):
    """Anything that stands among the arguments of an op."""
    if isinstance(x, torch.Tensor):
        return tensor(x)
    if isinstance(x, torch.dtype):
        return DTYPES[x]
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, (torch.memory_format, torch.layout)):
        return getattr(facade, str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return facade.device(str(x))
    if isinstance(x, torch.Generator):
        return facade.Generator()
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return tuple(map(value, x))
    if isinstance(x, (tuple, list)):
        return type(x)(map(value, x))
    if isinstance(x, dict):
        return {key: value(each) for key, each in x.items()}
    if isinstance(x, (types.FunctionType, types.BuiltinFunctionType)):
        return function(x)
    if isinstance(x, torch.nn.Module):
        if list(x.parameters()):
            raise Untranslatable(f"a {type(x).__name__} with weights among the arguments")
        return getattr(facade.nn, type(x).__name__)()
    return x


def of_the_tests(f):
    """True for a function that the test data wraps around PyTorch's own."""
    return isinstance(f, types.FunctionType) and (f.__module__ or "").startswith(("torch.testing", "test", "parity"))


def function(f):
    """A function of PyTorch's by its place in the facade; a test's lambda with the facade for its `torch`."""
    if of_the_tests(f):
        names = {name: facade if each is torch else each for name, each in f.__globals__.items()}
        if "F" in names:
            names["F"] = facade.nn.functional
        closure = f.__closure__ and tuple(types.CellType(_cell(c)) for c in f.__closure__)
        made = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, closure)
        made.__kwdefaults__ = f.__kwdefaults__
        return made
    for place in (facade, facade.nn.functional, facade.special, facade.linalg, facade.fft, facade.Tensor):
        if hasattr(place, f.__name__):
            return getattr(place, f.__name__)
    raise Untranslatable(f"the function {f.__name__}")


def _cell(cell):
    content = cell.cell_contents
    return value(content) if isinstance(content, (types.FunctionType, types.BuiltinFunctionType, torch.Tensor)) \
        else facade if content is torch else content


def op_function(op):
    """What an OpInfo calls, in Flambeau."""
    if of_the_tests(op.op):
        return function(op.op)
    found = facade
    for name in op.name.split("."):
        found = getattr(found, name, None)
        if found is None or found in DTYPES.values():
            found = getattr(facade.Tensor, name, None)
        if found is None:
            raise AttributeError(f"torch.{op.name}")
    return found


def array(x):
    """The elements as NumPy has them: half precision as float64, sparse tensors dense."""
    if isinstance(x, torch.Tensor):
        x = torch.zeros(x.shape, dtype=x.dtype) if x._is_zerotensor() else x.detach()
        x = (x if x.layout is torch.strided else x.to_dense()).resolve_conj().resolve_neg()
        return x.double().numpy() if x.dtype in (torch.float16, torch.bfloat16) else x.numpy()
    x = x.detach()
    x = x.to_dense() if str(x.layout) != str(facade.strided) else x
    return x.double().numpy() if x.dtype in (facade.float16, facade.bfloat16) else x.numpy()


def leaves(result, kind):
    """The tensors and numbers of a result, in order."""
    if isinstance(result, kind) or result is None:
        return [result]
    if isinstance(result, (tuple, list)):
        return [leaf for each in result for leaf in leaves(each, kind)]
    if isinstance(result, dict):
        return [leaf for each in result.values() for leaf in leaves(each, kind)]
    return [result]


def same_number(a, b):
    if isinstance(a, (bool, int, str)) or a is None:
        return a == b
    if isinstance(a, (float, complex)):
        return bool(numpy.isclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))
    return True         # dtypes and the like have names of their own


