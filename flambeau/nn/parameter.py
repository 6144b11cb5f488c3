"""`nn.parameter`: the public place of Parameter, which the tensor package defines."""

from flambeau.tensor.parameter import Parameter

__all__ = ["Parameter"]
