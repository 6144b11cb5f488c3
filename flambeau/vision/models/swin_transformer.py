"""Swin transformer. Source: Liu et al., "Hierarchical Vision Transformer using Shifted Windows" (2021)."""

from functools import partial

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.tensor import arange, cat, zeros
from flambeau.vision.models._api import builder
from flambeau.vision.ops.drops import StochasticDepth
from flambeau.vision.ops.misc import MLP, Permute


class PatchMerging(nn.Module):
    """(batch, height, width, dim) -> (batch, height / 2, width / 2, 2 dim)."""

    def __init__(self, dim, norm_layer=nn.LayerNorm):
        super().__init__()
        self.dim, self.reduction = dim, nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x):
        height, width = x.shape[-3:-1]
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        parts = [x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(cat(parts, -1)))


class ShiftedWindowAttention(nn.Module):
    """(batch, height, width, dim) -> the same: attention within windows, which are shifted by
    `shift_size`.
    """

    def __init__(self, dim, window_size, shift_size, num_heads, qkv_bias=True, proj_bias=True,
                 attention_dropout=0.0,
                 dropout=0.0):
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=qkv_bias), nn.Linear(dim, dim, bias=proj_bias)
        rows, columns = window_size
        self.relative_position_bias_table = nn.Parameter(zeros((2 * rows - 1) * (2 * columns - 1), num_heads))
        place = arange(rows * columns)
        row, column = place // columns, place % columns
        down, across = row[:, None] - row[None], column[:, None] - column[None]
        index = (down + rows - 1) * (2 * columns - 1) + across + columns - 1
        self.register_buffer("relative_position_index", index.flatten())
        init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def bias_of_places(self):
        """(1, heads, window, window)"""
        count = self.window_size[0] * self.window_size[1]
        table = self.relative_position_bias_table[self.relative_position_index]
        return table.view(count, count, -1).permute(2, 0, 1)[None]

    def forward(self, x):
        batch, height, width, dim = x.shape
        rows, columns = self.window_size
        x = F.pad(x, (0, 0, 0, -width % columns, 0, -height % rows))
        padded_height, padded_width = x.shape[1:3]
        shift = [0 if window >= size else step for window, size, step in
                 zip(self.window_size, (padded_height, padded_width), self.shift_size)]
        if any(shift):
            x = x.roll((-shift[0], -shift[1]), (1, 2))
        grid = padded_height // rows, padded_width // columns
        x = x.view(batch, grid[0], rows, grid[1], columns, dim).permute(0, 1, 3, 2, 4, 5)
        x = self._attend(x.reshape(batch * grid[0] * grid[1], rows * columns, dim), shift, grid)
        x = x.view(batch, *grid, rows, columns, dim).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(batch, padded_height, padded_width, dim)
        if any(shift):
            x = x.roll((shift[0], shift[1]), (1, 2))
        return x[:, :height, :width]

    def _attend(self, x, shift, grid):
        """Attention within windows (windows, places, dim)."""
        windows, places, dim = x.shape
        heads = self.num_heads
        q, k, v = self.qkv(x).view(windows, places, 3, heads, dim // heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * (dim // heads) ** -0.5) @ k.transpose(-2, -1) + self.bias_of_places()
        if any(shift):
            mask = self._apart(shift, grid).to(x.dtype)
            scores = scores.view(-1, len(mask), heads, places, places) + mask[None, :, None]
            scores = scores.view(-1, heads, places, places)
        shares = F.dropout(F.softmax(scores, dim=-1), p=self.attention_dropout, training=self.training)
        x = self.proj((shares @ v).transpose(1, 2).reshape(windows, places, dim))
        return F.dropout(x, p=self.dropout, training=self.training)

    def _apart(self, shift, grid):
        """(windows, places, places): -100 between places that were not neighbours before the shift."""
        parts = []
        for size, window, step in zip(grid, self.window_size, shift):
            place = arange(size * window)
            parts.append((place >= size * window - window).long() + (place >= size * window - step).long()
                         if step else (place >= size * window - window).long())
        label = parts[0][:, None] * 3 + parts[1][None]
        rows, columns = self.window_size
        label = label.view(grid[0], rows, grid[1], columns).permute(0, 2, 1, 3).reshape(-1, rows * columns)
        return (label[:, None] != label[:, :, None]) * -100.0


class SwinTransformerBlock(nn.Module):
    """Attention and MLP, each behind a norm and beside a shortcut that is kept at random."""

    def __init__(self, dim, num_heads, window_size, shift_size, mlp_ratio=4.0, dropout=0.0,
                 attention_dropout=0.0,
                 stochastic_depth_prob=0.0, norm_layer=nn.LayerNorm, attn_layer=ShiftedWindowAttention):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout,
                               dropout=dropout)
        self.stochastic_depth, self.norm2 = StochasticDepth(stochastic_depth_prob, "row"), norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, inplace=None,
                       dropout=dropout)
        for module in self.mlp.modules():
            if isinstance(module, nn.Linear):
                init.xavier_uniform_(module.weight)
                init.normal_(module.bias, std=1e-6)

    def forward(self, x):
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformer(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, patch_size, embed_dim, depths, num_heads, window_size, mlp_ratio=4.0, dropout=0.0,
                 attention_dropout=0.0, stochastic_depth_prob=0.1, num_classes=1000, norm_layer=None,
                 block=None,
                 downsample_layer=PatchMerging):
        super().__init__()
        self.num_classes = num_classes
        block, norm_layer = block or SwinTransformerBlock, norm_layer or partial(nn.LayerNorm, eps=1e-5)
        layers = [nn.Sequential(
            nn.Conv2d(3, embed_dim, kernel_size=tuple(patch_size), stride=tuple(patch_size)),
            Permute([0, 2, 3, 1]),
            norm_layer(embed_dim))]
        total, done = sum(depths), 0
        for stage, (depth, heads) in enumerate(zip(depths, num_heads)):
            dim, blocks = embed_dim * 2 ** stage, []
            for index in range(depth):
                shift = [0 if index % 2 == 0 else window // 2 for window in window_size]
                blocks.append(block(dim, heads, window_size, shift, mlp_ratio, dropout, attention_dropout,
                                    stochastic_depth_prob * float(done) / (total - 1), norm_layer))
                done += 1
            layers.append(nn.Sequential(*blocks))
            if stage < len(depths) - 1:
                layers.append(downsample_layer(dim, norm_layer))
        width = embed_dim * 2 ** (len(depths) - 1)
        self.features, self.norm = nn.Sequential(*layers), norm_layer(width)
        self.permute, self.avgpool = Permute([0, 3, 1, 2]), nn.AdaptiveAvgPool2d(1)
        self.flatten, self.head = nn.Flatten(1), nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    init.zeros_(module.bias)

    def forward(self, x):
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _swin(embed_dim, depths, num_heads, depth_prob, options):
    options.setdefault("stochastic_depth_prob", depth_prob)
    return SwinTransformer([4, 4], embed_dim, depths, num_heads, [7, 7], **options)


@builder("Swin_T_Weights")
def swin_t(**options):
    """Swin transformer, tiny."""
    return _swin(96, [2, 2, 6, 2], [3, 6, 12, 24], 0.2, options)


@builder("Swin_S_Weights")
def swin_s(**options):
    """Swin transformer, small."""
    return _swin(96, [2, 2, 18, 2], [3, 6, 12, 24], 0.3, options)


@builder("Swin_B_Weights")
def swin_b(**options):
    """Swin transformer, base."""
    return _swin(128, [2, 2, 18, 2], [4, 8, 16, 32], 0.5, options)
