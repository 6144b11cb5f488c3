"""Functions behind the layers: the one part of `nn` that calls `ops`.

Arguments and defaults are PyTorch's. A function that only forwards to an op keeps its checks there; what
stands here is the handling of `inplace`, `training`, running statistics and `reduction`.
"""

from .activations import (celu, celu_, elu, elu_, gelu, glu, gumbel_softmax, hardshrink, hardsigmoid,
                          hardswish, hardtanh, hardtanh_, leaky_relu, leaky_relu_, log_softmax, logsigmoid,
                          mish, prelu, relu, relu6, relu_, rrelu, rrelu_, selu, selu_, sigmoid, silu,
                          softmax, softmin, softplus, softshrink, softsign, tanh, tanhshrink, threshold,
                          threshold_)
from .attention import multi_head_attention_forward, scaled_dot_product_attention
from .ctc import ctc_loss
from .distances import cosine_similarity, pairwise_distance, pdist
from .dropouts import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from .embeddings import embedding, embedding_bag, one_hot
from .images import (affine_grid, channel_shuffle, grid_sample, interpolate, native_channel_shuffle,
                     pixel_shuffle, pixel_unshuffle, upsample, upsample_bilinear, upsample_nearest)
from .linears import (bilinear, conv1d, conv2d, conv3d, conv_tbc, conv_transpose1d, conv_transpose2d,
                      conv_transpose3d, fold, linear, pad, unfold)
from .losses import (binary_cross_entropy, binary_cross_entropy_with_logits, cosine_embedding_loss,
                     cross_entropy, gaussian_nll_loss, hinge_embedding_loss, huber_loss, kl_div, l1_loss,
                     linear_cross_entropy, margin_ranking_loss, mse_loss, multi_margin_loss,
                     multilabel_margin_loss, multilabel_soft_margin_loss, nll_loss, poisson_nll_loss,
                     smooth_l1_loss, soft_margin_loss, triplet_margin_loss, triplet_margin_with_distance_loss)
from .norms import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, normalize, rms_norm
from .pools import (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d,
                    adaptive_max_pool1d_with_indices, adaptive_max_pool2d, adaptive_max_pool2d_with_indices,
                    adaptive_max_pool3d, adaptive_max_pool3d_with_indices, avg_pool1d, avg_pool2d,
                    avg_pool3d, fractional_max_pool2d, fractional_max_pool2d_with_indices,
                    fractional_max_pool3d, fractional_max_pool3d_with_indices, lp_pool1d, lp_pool2d,
                    lp_pool3d, max_pool1d, max_pool1d_with_indices, max_pool2d, max_pool2d_with_indices,
                    max_pool3d, max_pool3d_with_indices, max_unpool1d, max_unpool2d, max_unpool3d)
from .sizes import pair, single, triple

__all__ = [name for name, value in list(globals().items())
           if callable(value) and not name.startswith("_") and name not in ("pair", "single", "triple")]
