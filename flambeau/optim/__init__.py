"""optim: optimizers and learning rate schedules, with PyTorch's names, formulas and state dicts."""

from flambeau.optim import lr_scheduler
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "lr_scheduler"]
