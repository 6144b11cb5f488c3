"""Vision transformer. Source: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020)."""

import math
from collections import OrderedDict
from functools import partial

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.tensor import cat, empty, zeros
from flambeau.vision.models._api import builder
from flambeau.vision.ops.misc import MLP


class MLPBlock(MLP):
    """Two Linear layers with GELU and dropout."""

    def __init__(self, in_dim, mlp_dim, dropout):
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    init.normal_(module.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """(batch, length, hidden_dim) -> the same: attention and MLP, each behind a norm and beside a
    shortcut.
    """

    def __init__(self, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer):
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout,
                                                    batch_first=True)
        self.dropout, self.ln_2 = nn.Dropout(dropout), norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input):
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Places are added, then the blocks follow."""

    def __init__(self, seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout,
                 norm_layer):
        super().__init__()
        self.pos_embedding = nn.Parameter(empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(OrderedDict(
            (f"encoder_layer_{index}", EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout,
                                                    attention_dropout,
                                                    norm_layer)) for index in range(num_layers)))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input):
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """(batch, 3, image_size, image_size) -> (batch, num_classes)."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, dropout=0.0,
                 attention_dropout=0.0, num_classes=1000, representation_size=None,
                 norm_layer=partial(nn.LayerNorm, eps=1e-6), conv_stem_configs=None):
        super().__init__()
        if image_size % patch_size:
            raise ValueError("Input shape indivisible by patch size!")
        if conv_stem_configs is not None:
            raise NotImplementedError("VisionTransformer: conv_stem_configs is not supported")
        self.image_size, self.patch_size = image_size, patch_size
        self.hidden_dim, self.mlp_dim = hidden_dim, mlp_dim
        self.num_classes, self.representation_size = num_classes, representation_size
        self.norm_layer = norm_layer
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        self.encoder = Encoder(self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout,
                               attention_dropout, norm_layer)
        self.heads = nn.Sequential(self._heads(hidden_dim, representation_size, num_classes))
        self._start()

    @staticmethod
    def _heads(hidden_dim, representation_size, num_classes):
        if representation_size is None:
            return OrderedDict(head=nn.Linear(hidden_dim, num_classes))
        return OrderedDict(pre_logits=nn.Linear(hidden_dim, representation_size), act=nn.Tanh(),
                           head=nn.Linear(representation_size, num_classes))

    def _start(self):
        patch = self.conv_proj.in_channels * self.conv_proj.kernel_size[0] * self.conv_proj.kernel_size[1]
        init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / patch))
        init.zeros_(self.conv_proj.bias)
        if hasattr(self.heads, "pre_logits"):
            init.trunc_normal_(self.heads.pre_logits.weight,
                               std=math.sqrt(1 / self.heads.pre_logits.in_features))
            init.zeros_(self.heads.pre_logits.bias)
        init.zeros_(self.heads.head.weight)
        init.zeros_(self.heads.head.bias)

    def _process_input(self, x):
        """(batch, 3, height, width) -> (batch, patches, hidden_dim)"""
        if tuple(x.shape[-2:]) != (self.image_size, self.image_size):
            raise ValueError(f"Wrong image height or width! Expected {self.image_size} but got "
                             f"{tuple(x.shape[-2:])}!")
        return self.conv_proj(x).flatten(2).permute(0, 2, 1)

    def forward(self, x):
        x = self._process_input(x)
        x = self.encoder(cat([self.class_token.expand(len(x), -1, -1), x], 1))
        return self.heads(x[:, 0])


def interpolate_embeddings(image_size, patch_size, model_state, interpolation_mode="bicubic",
                           reset_heads=False):
    """A state dict whose places fit another size of pictures."""
    places = model_state["encoder.pos_embedding"]
    length, wanted = places.shape[1] - 1, (image_size // patch_size) ** 2
    if length == wanted:
        return model_state
    side, new_side = math.isqrt(length), image_size // patch_size
    if side * side != length:
        raise ValueError(f"seq_length is not a perfect square! got {length}")
    grid = places[:, 1:].permute(0, 2, 1).reshape(1, -1, side, side)
    grid = F.interpolate(grid, size=new_side, mode=interpolation_mode, align_corners=True)
    new = cat([places[:, :1], grid.reshape(1, -1, wanted).permute(0, 2, 1)], 1)
    kept = OrderedDict((name, value) for name, value in model_state.items()
                       if not (reset_heads and name.startswith("heads")))
    kept["encoder.pos_embedding"] = new
    return kept


def _vit(patch_size, num_layers, num_heads, hidden_dim, mlp_dim, weights, options):
    size = options.pop("image_size", 224)
    if weights is not None:
        size = weights.transforms.args[0]
    return VisionTransformer(size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **options)


@builder("ViT_B_16_Weights")
def vit_b_16(weights=None, **options):
    """Vision transformer, base, patches of 16 pixels."""
    return _vit(16, 12, 12, 768, 3072, weights, options)


@builder("ViT_B_32_Weights")
def vit_b_32(weights=None, **options):
    """Vision transformer, base, patches of 32 pixels."""
    return _vit(32, 12, 12, 768, 3072, weights, options)


@builder("ViT_L_16_Weights")
def vit_l_16(weights=None, **options):
    """Vision transformer, large, patches of 16 pixels."""
    return _vit(16, 24, 16, 1024, 4096, weights, options)


@builder("ViT_L_32_Weights")
def vit_l_32(weights=None, **options):
    """Vision transformer, large, patches of 32 pixels."""
    return _vit(32, 24, 16, 1024, 4096, weights, options)


@builder("ViT_H_14_Weights")
def vit_h_14(weights=None, **options):
    """Vision transformer, huge, patches of 14 pixels."""
    return _vit(14, 32, 16, 1280, 5120, weights, options)
