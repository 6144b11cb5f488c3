"""Parameters as one vector, and back."""

from flambeau.tensor import Tensor, cat


def parameters_to_vector(parameters):
    """All elements of the parameters one after the other, on the tape."""
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters):
    """Give the parameters the elements of a vector; they share its memory from then on."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[start:start + count].reshape(parameter.shape).detach()
        start += count
