"""nn: layers, losses and the Module that holds them, with PyTorch's names and rules."""

from flambeau.nn import functional, init, parameter, utils
from flambeau.nn.activation import (CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh,
                                    LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU, ReLU6, RReLU, SELU,
                                    Sigmoid, SiLU, Softmax, Softmax2d, Softmin, Softplus, Softshrink,
                                    Softsign, Tanh, Tanhshrink, Threshold)
from flambeau.nn.adaptive import AdaptiveLogSoftmaxWithLoss
from flambeau.nn.attention import MultiheadAttention
from flambeau.nn.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from flambeau.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.distance import CosineSimilarity, PairwiseDistance
from flambeau.nn.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from flambeau.nn.flatten import Flatten, Unflatten
from flambeau.nn.image import (ChannelShuffle, Fold, PixelShuffle, PixelUnshuffle, Unfold, Upsample,
                               UpsamplingBilinear2d, UpsamplingNearest2d)
from flambeau.nn.lazy import (LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d, LazyConv1d, LazyConv2d,
                              LazyConv3d, LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d,
                              LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d, LazyLinear)
from flambeau.nn.linear import Bilinear, Embedding, EmbeddingBag, Identity, Linear
from flambeau.nn.loss import (BCELoss, LinearCrossEntropyOptions, BCEWithLogitsLoss, CosineEmbeddingLoss,
                              CrossEntropyLoss, CTCLoss, GaussianNLLLoss, HingeEmbeddingLoss, HuberLoss,
                              KLDivLoss, L1Loss, LinearCrossEntropyLoss, MarginRankingLoss, MSELoss,
                              MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss,
                              NLLLoss2d, PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss,
                              TripletMarginWithDistanceLoss)
from flambeau.nn.module import Module
from flambeau.nn.normalization import (BatchNorm1d, BatchNorm2d, BatchNorm3d, CrossMapLRN2d, GroupNorm,
                                       InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm,
                                       LocalResponseNorm, RMSNorm, SyncBatchNorm)
from flambeau.nn.padding import (CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d,
                                 ConstantPad3d, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d,
                                 ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
                                 ZeroPad3d)
from flambeau.nn.parallel import DataParallel
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from flambeau.nn.pooling import (AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d,
                                 AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d,
                                 FractionalMaxPool2d, FractionalMaxPool3d, LPPool1d, LPPool2d, LPPool3d,
                                 MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d)
from flambeau.nn.rnn import GRU, GRUCell, LSTM, LSTMCell, RNN, RNNBase, RNNCell, RNNCellBase
from flambeau.nn.transformer import (Transformer, TransformerDecoder, TransformerDecoderLayer,
                                     TransformerEncoder, TransformerEncoderLayer)

__all__ = sorted(name for name, value in list(globals().items())
                 if isinstance(value, type)) + ["functional", "init", "parameter", "utils"]
