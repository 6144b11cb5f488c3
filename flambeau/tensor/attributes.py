"""Attributes of Tensor that tell what it is not, and small methods under PyTorch's names."""

from flambeau.base.errors import fail
from flambeau.ops.write import check_write
from flambeau.runtime._core import Tensor
from flambeau.tensor import create
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device, missing

_NEVER = ("is_xpu", "is_mps", "is_ipu", "is_xla", "is_vulkan", "is_mkldnn", "is_mtia", "is_maia", "is_quantized", "is_nested",
          "is_sparse_csr")


def _refused(device):
    def move(self, *args, **kwargs):
        missing(Device(device), device)
    move.__doc__ = f"Refused: there is no {device} device."
    return move


def apply_(self, callable):
    """Replace each element by callable(element), in Python."""
    check_write("apply_", self)
    flat = [callable(value) for value in self.detach().reshape(-1).tolist()]
    return self.copy_(create.tensor(flat, dtype=self.dtype).reshape(tuple(self.shape)))


def map_(self, tensor, callable):
    """Replace each element by callable(element, element of `tensor`), in Python."""
    check_write("map_", self)
    other = tensor.expand(tuple(self.shape)).reshape(-1).tolist()
    flat = [callable(a, b) for a, b in zip(self.detach().reshape(-1).tolist(), other)]
    return self.copy_(create.tensor(flat, dtype=self.dtype).reshape(tuple(self.shape)))


def map2_(self, x, y, callable):
    """Replace each element by callable(element, element of x, element of y), in Python."""
    check_write("map2_", self)
    others = [t.expand(tuple(self.shape)).reshape(-1).tolist() for t in (x, y)]
    flat = [callable(*three) for three in zip(self.detach().reshape(-1).tolist(), *others)]
    return self.copy_(create.tensor(flat, dtype=self.dtype).reshape(tuple(self.shape)))


def module_load(self, other, assign=False):
    """What a module that loads `other` for this parameter or buffer keeps: other itself if `assign`, else this with its
    values."""
    return other.detach() if assign else self.copy_(other).detach()


def dim_order(self, ambiguity_check=False):
    """The dimensions in the order of memory, outermost first."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda axis: -strides[axis]))


def new_empty_strided(self, size, stride, *, dtype=None, device=None, requires_grad=False, layout=None,
                      pin_memory=False):
    """Uninitialised memory with given strides, of the same dtype by default."""
    return create.empty_strided(size, stride, dtype=dtype or self.dtype, device=self.device if device is None else device,
                                requires_grad=requires_grad)


def bernoulli(self, p=None, *, generator=None):
    """1 with the probability that an element gives, or with probability `p`; else 0."""
    weights = self if p is None else create.full_like(self, 1) * p if isinstance(p, Tensor) else create.full_like(self, p)
    return create.bernoulli(weights, generator=generator)


def _set_grad_dtype(self, dtype):
    if dtype is not None and dtype is not self.dtype:
        fail("grad_dtype", "a gradient has the dtype of its tensor", dtype, self.dtype, kind=NotImplementedError)


PROPERTIES = {name: property(lambda self: False) for name in _NEVER}
PROPERTIES |= {"is_cpu": property(lambda self: not self.is_shape_only), "name": property(lambda self: None),
               "volatile": property(lambda self: False),
               "grad_dtype": property(lambda self: self.dtype, _set_grad_dtype), "output_nr": property(lambda self: self.output_number)}
METHODS = {device: _refused(device) for device in ("cuda", "xpu", "ipu", "mtia")}
METHODS |= {
    "apply_": apply_, "map_": map_, "map2_": map2_, "module_load": module_load, "dim_order": dim_order, "bernoulli": bernoulli,
    "new_empty_strided": new_empty_strided, "ndimension": lambda self: self.ndim,
    "cfloat": lambda self, memory_format=None: self.to(dtypes.complex64),
    "cdouble": lambda self, memory_format=None: self.to(dtypes.complex128),
    "to_dense": lambda self, dtype=None, *, masked_grad=True: self if dtype is None else self.to(dtype),
    "const_data_ptr": lambda self: self.data_ptr(), "is_inference": lambda self: False,
    "is_distributed": lambda self: False, "record_stream": lambda self, stream: None,
}
