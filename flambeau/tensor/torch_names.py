"""Under which names PyTorch's files know the classes and functions of this house, and the way back.

A file of PyTorch's names a layer `torch.nn.modules.linear.Linear`. Reading, `lookup` finds it among the
public names of the house; writing, `torch_name` gives the name that PyTorch finds the class under.
"""

import importlib
import sys

# Where PyTorch keeps the classes: module, then the classes in it.
_MODULES = """
torch.nn.modules.activation: CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU
  LogSigmoid LogSoftmax Mish MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d
  Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold
torch.nn.modules.adaptive: AdaptiveLogSoftmaxWithLoss
torch.nn.modules.batchnorm: BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d
  LazyBatchNorm3d SyncBatchNorm
torch.nn.modules.channelshuffle: ChannelShuffle
torch.nn.modules.container: ModuleDict ModuleList ParameterDict ParameterList Sequential
torch.nn.modules.conv: Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d
  LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d
torch.nn.modules.distance: CosineSimilarity PairwiseDistance
torch.nn.modules.dropout: AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout
torch.nn.modules.flatten: Flatten Unflatten
torch.nn.modules.fold: Fold Unfold
torch.nn.modules.instancenorm: InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d
  LazyInstanceNorm2d LazyInstanceNorm3d
torch.nn.modules.linear: Bilinear Identity LazyLinear Linear NonDynamicallyQuantizableLinear
torch.nn.modules.loss: BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss
  GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss
  MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss PoissonNLLLoss SmoothL1Loss
  SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss
torch.nn.modules.module: Module
torch.nn.modules.normalization: CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm
torch.nn.modules.padding: CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
  ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
  ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d
torch.nn.modules.pixelshuffle: PixelShuffle PixelUnshuffle
torch.nn.modules.pooling: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d
  AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d
  LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
torch.nn.modules.rnn: GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase
torch.nn.modules.sparse: Embedding EmbeddingBag
torch.nn.modules.transformer: Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
  TransformerEncoderLayer
torch.nn.modules.upsampling: Upsample UpsamplingBilinear2d UpsamplingNearest2d
torch.nn.parallel.data_parallel: DataParallel
torch.nn.parameter: Buffer Parameter UninitializedBuffer UninitializedParameter
torch.optim: Adafactor Muon
torch.optim.adadelta: Adadelta
torch.optim.adagrad: Adagrad
torch.optim.adam: Adam
torch.optim.adamax: Adamax
torch.optim.adamw: AdamW
torch.optim.asgd: ASGD
torch.optim.lbfgs: LBFGS
torch.optim.lr_scheduler: ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR
  ExponentialLR LRScheduler LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR
  ReduceLROnPlateau SequentialLR StepLR
torch.optim.nadam: NAdam
torch.optim.optimizer: Optimizer
torch.optim.radam: RAdam
torch.optim.rmsprop: RMSprop
torch.optim.rprop: Rprop
torch.optim.sgd: SGD
torch.optim.sparse_adam: SparseAdam
torch.optim.swa_utils: AveragedModel SWALR
torch.utils.data.dataset: ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset
  TensorDataset
torch.utils.data.distributed: DistributedSampler
torch.utils.data.sampler: BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler
  WeightedRandomSampler
"""
# Functions that layers keep as attributes and that PyTorch finds elsewhere than in torch.nn.functional.
_NATIVE_FUNCTIONS = {
    "gelu": "torch._C._nn",
    "softplus": "torch._C._nn",
    "softshrink": "torch._C._nn",
    "logsigmoid": "torch._C._nn",
}
# Packages all of whose classes a file may name; of the others those with a name of PyTorch's.
DATA_PACKAGES = ("nn", "optim", "distributions", "vision")
# Where PyTorch's public names stand in the house: the first that the module's name starts with counts.
_HOMES = (
    ("torch.nn.functional", "flambeau.nn.functional"),
    ("torch._C._nn", "flambeau.nn.functional"),
    ("torch.nn.utils.parametrize", "flambeau.nn.utils.parametrize"),
    ("torch.nn.utils.prune", "flambeau.nn.utils.prune"),
    ("torch.nn", "flambeau.nn"),
    ("torch.optim.lr_scheduler", "flambeau.optim.lr_scheduler"),
    ("torch.optim.swa_utils", "flambeau.nn.averaging"),
    ("torch.optim", "flambeau.optim"),
    ("torch.utils.data", "flambeau.data"),
    ("torch.distributions", "flambeau.distributions"),
    ("torch", "flambeau"),
)


_HIDDEN = {"NonDynamicallyQuantizableLinear": "flambeau.nn.attention"}  # classes that have no public name


def _modules():
    """Name of a class -> the modules that PyTorch keeps a class of that name in."""
    found, module = {}, None
    for word in _MODULES.split():
        if word.endswith(":"):
            module = word[:-1]
        else:
            found.setdefault(word, []).append(module)
    return found


_MODULE_OF = _modules()


def lookup(module, name):
    """What the house has of `module`.`name` of torch, or None."""
    home = _HIDDEN.get(name) or next(
        (home for start, home in _HOMES if module == start or module.startswith(start + ".")), None
    )
    if home is None or module.startswith("torch.") and home == "flambeau":
        return None
    try:
        value = source = importlib.import_module(home)
        for part in name.split("."):
            if part.startswith("__") or value is not source and not isinstance(value, type):
                return None
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return None
    return value


def torch_name(value):
    """(module, name) under which PyTorch has a class or function of this house; None for anything else."""
    own = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(value, type):
        if not isinstance(own, str) or not own.startswith("flambeau.") or name is None:
            return None
        if value is sys.modules["flambeau.tensor"].Tensor:
            return "torch", "Tensor"
        if own.startswith("flambeau.distributions."):
            return _distribution(value, name)
        for module in _MODULE_OF.get(name, ()):
            if lookup(module, name) is value:
                return module, name
        return None
    return _function_name(value, name) if name and callable(value) else None


def _distribution(value, name):
    """Distributions stand in a module that has their name."""
    package = importlib.import_module("flambeau." + "distributions")
    module = {
        "RelaxedOneHotCategorical": "relaxed_categorical",
        "OneHotCategoricalStraightThrough": "one_hot_categorical",
        "ExponentialFamily": "exp_family",
        "StudentT": "studentT",
        "FisherSnedecor": "fishersnedecor",
        "LKJCholesky": "lkj_cholesky",
        "LowRankMultivariateNormal": "lowrank_multivariate_normal",
    }.get(name)
    if name.endswith("Transform"):
        module = "transforms"
    if module is None:
        module = "".join("_" + c.lower() if c.isupper() and at else c.lower() for at, c in enumerate(name))
    return (f"torch.distributions.{module}", name) if getattr(package, name, None) is value else None


def _function_name(value, name):
    for module in ("torch.nn.functional", "torch"):
        if lookup(module, name) is value:
            return _NATIVE_FUNCTIONS.get(name, module), name
    return None
