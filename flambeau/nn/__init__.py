"""nn: layers, losses and the Module that holds them, with PyTorch's names and rules."""

from flambeau.nn import functional, init, parameter
from flambeau.nn.activation import GELU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from flambeau.nn.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from flambeau.nn.conv import Conv1d, Conv2d
from flambeau.nn.dropout import Dropout
from flambeau.nn.flatten import Flatten, Unflatten
from flambeau.nn.linear import Embedding, Identity, Linear
from flambeau.nn.loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from flambeau.nn.module import Module
from flambeau.nn.normalization import BatchNorm1d, BatchNorm2d, LayerNorm
from flambeau.nn.parameter import Parameter
from flambeau.nn.pooling import MaxPool2d

__all__ = [
    "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d", "CrossEntropyLoss", "Dropout",
    "Embedding", "Flatten", "GELU", "Identity", "L1Loss", "LayerNorm", "Linear", "LogSoftmax", "MSELoss",
    "MaxPool2d", "Module", "ModuleDict", "ModuleList", "NLLLoss", "Parameter", "ParameterDict",
    "ParameterList", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh", "Unflatten",
    "functional", "init", "parameter",
]
