"""Updates from sparse gradients: only the elements that a gradient specifies are read and written."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.tensor.sparse import product


class Specified:
    """The places of a coalesced gradient, and the elements of dense tensors of its shape there."""

    def __init__(self, gradient, maximize=False):
        gradient = gradient.detach().coalesce()
        self.values = -gradient.inner if maximize else gradient.inner      # (places, *dense sizes)
        self.places, self.axes = gradient.flat(), gradient.sparse_dim()
        self.empty = self.values.numel() == 0

    def read(self, tensor):
        """(places, *dense sizes) of a tensor in the gradient's shape."""
        return ops.index_select(self._lines(tensor.detach()), 0, self.places)

    def write(self, tensor, values):
        """Put values at the places, in place."""
        lines = self._lines(tensor.detach())
        lines[self.places] = values
        if lines.storage_ is not tensor.storage_:       # a layout that no view can flatten
            tensor.detach().copy_(lines.reshape(tuple(tensor.shape)))

    def _lines(self, tensor):
        if self.axes == 1:
            return tensor
        return ops.reshape(tensor, (product(tensor.shape[:self.axes]), *tensor.shape[self.axes:]))


def refuse_decay(name):
    fail(name, "weight_decay option is not compatible with sparse gradients", hint="set weight_decay=0")


def refuse_sparse(name):
    fail(name.removesuffix("_update"), "sparse gradients are not supported by this optimizer",
         hint="use SparseAdam, SGD or Adagrad, or a layer with sparse=False")


def sgd_rows(parameter, state, momentum, fresh, size, nesterov, maximize):
    """SGD's step; the running average is a sparse tensor too, as in PyTorch."""
    direction = -parameter.grad.detach() if maximize else parameter.grad.detach()
    if momentum:
        before = state.get("momentum_buffer")
        average = direction if before is None else before * momentum + direction * fresh
        state["momentum_buffer"] = average = average.coalesce()
        direction = direction + average * momentum if nesterov else average
    at = Specified(direction)
    at.write(parameter, at.read(parameter) - at.values * size)


def adagrad_rows(parameter, total, eps, size, maximize):
    """Adagrad's step at the places of the gradient; `total` are the sums of squares of all."""
    at = Specified(parameter.grad, maximize)
    squares = at.read(total) + at.values * at.values
    at.write(total, squares)
    at.write(parameter, at.read(parameter) - at.values / (squares.sqrt() + eps) * size)
