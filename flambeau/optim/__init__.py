"""optim: optimizers and learning rate schedules, with PyTorch's names, formulas and state dicts."""

from flambeau.optim import lr_scheduler
from flambeau.optim.adafactor import Adafactor, Muon
from flambeau.optim.adagrad import Adadelta, Adagrad
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.adam_kin import Adamax, NAdam, RAdam
from flambeau.optim.classic import ASGD, Rprop
from flambeau.optim.lbfgs import LBFGS
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam
from flambeau.optim.swapping import swap_in_optimizer_params_and_state

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
           "Optimizer",
           "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swap_in_optimizer_params_and_state"]
