"""`optim.adamw`: the public place of AdamW, which is Adam with decoupled weight decay."""

from flambeau.optim.adam import AdamW

__all__ = ["AdamW"]
