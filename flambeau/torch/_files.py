"""`torch.save` writes PyTorch's format, where `flambeau.save` has its own."""

from flambeau.tensor.save import torch_save as save

__all__ = ["save"]
