"""Features of regions: boxes of pictures of a batch, each as a small picture of one size."""

import math

from flambeau import nn
from flambeau.tensor import arange, cat, full, stack, tensor, zeros
from flambeau.types.dtype import int64


def regions_of(boxes):
    """(count, 5): number of the picture, x1, y1, x2, y2; from such a tensor or a list of (count, 4), one a
    picture.
    """
    if not isinstance(boxes, (list, tuple)):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise ValueError("The boxes tensor shape is not correct as Tensor[K, 5]")
        return boxes
    if any(each.ndim != 2 or each.shape[1] != 4 for each in boxes):
        raise ValueError("The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]")
    return cat([cat([full((len(each), 1), float(index), dtype=each.dtype), each], 1)
                for index, each in enumerate(boxes)])


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """Each region as (channels, *output_size): means of values between pixels. Source: He et al., "Mask
    R-CNN" (2017).

    input: (batch, channels, height, width). boxes: (count, 5) or a list, see `regions_of`. spatial_scale:
    from the boxes' units to pixels of `input`. sampling_ratio: points a cell and axis (<= 0: as many as
    pixels). aligned: boxes are shifted by half a pixel.

    Returns:
        (count, channels, *output_size).
    """
    boxes = regions_of(boxes)
    rows, columns = (output_size, output_size) if isinstance(output_size, int) else output_size
    if not len(boxes):
        return zeros((0, input.shape[1], rows, columns), dtype=input.dtype)
    shift = 0.5 if aligned else 0.0
    left, top, right, bottom = (boxes[:, 1:].to(input.dtype) * spatial_scale - shift).unbind(1)
    width, height = right - left, bottom - top
    if not aligned:
        width, height = width.clamp(min=1.0), height.clamp(min=1.0)
    images = boxes[:, 0].to(int64)
    across = _counts(width / columns, sampling_ratio)
    down = _counts(height / rows, sampling_ratio)
    found = [None] * len(boxes)
    for counts in sorted(set(zip(down, across))):          # regions with the same number of points together
        members = [index for index, pair in enumerate(zip(down, across)) if pair == counts]
        chosen = tensor(members)
        y = _points(top[chosen], height[chosen], rows, counts[0])
        x = _points(left[chosen], width[chosen], columns, counts[1])
        values = _between(input, images[chosen], y, x)
        cells = values.reshape(len(members), -1, rows, counts[0], columns, counts[1]).mean((3, 5))
        for index, cell in zip(members, cells.unbind(0)):
            found[index] = cell
    return stack(found)


def _counts(cell, ratio):
    """Points a cell, an int a region."""
    return [ratio] * len(cell) if ratio > 0 else [max(math.ceil(size), 1) for size in cell.tolist()]


def _points(start, extent, cells, count):
    """Places (regions, cells * count), evenly spread over each cell."""
    places = (arange(cells * count, dtype=start.dtype) + 0.5) / count
    return start[:, None] + places[None] * (extent / cells)[:, None]


def _between(input, images, y, x):
    """Values (regions, channels, rows, columns) at the places y (regions, rows) and x (regions, columns)."""
    batch, channels, height, width = input.shape
    pixels = input.permute(0, 2, 3, 1).reshape(-1, channels)         # a pixel's channels lie together
    result = None
    for row, row_weight in _neighbours(y, height):
        lines = (images[:, None] * height + row)[:, :, None] * width
        for column, column_weight in _neighbours(x, width):
            picked = pixels.index_select(0, (lines + column[:, None, :]).flatten())
            part = picked * (row_weight[:, :, None] * column_weight[:, None, :]).reshape(-1, 1)
            result = part if result is None else result + part
    return result.view(len(y), y.shape[1], x.shape[1], channels).permute(0, 3, 1, 2)


def _neighbours(places, size):
    """The pixels below and above each place, with their weights; 0 more than a pixel outside."""
    inside = ((places >= -1.0) & (places <= size)).to(places.dtype)
    places = places.clamp(min=0.0)
    low = places.floor().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    share = (places - low) * (low < size - 1).to(places.dtype)
    return [(low.to(int64), (1 - share) * inside), (high.to(int64), share * inside)]


def roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """Each region as (channels, *output_size): maxima of its cells. Source: Girshick, "Fast R-CNN" (2015)."""
    boxes = regions_of(boxes)
    rows, columns = (output_size, output_size) if isinstance(output_size, int) else output_size
    height, width = input.shape[-2:]
    regions = []
    for image, *corners in boxes.tolist():
        left, top, right, bottom = (_rounded(corner * spatial_scale) for corner in corners)
        down = _cells(top, max(bottom - top + 1, 1), rows, height)
        across = _cells(left, max(right - left + 1, 1), columns, width)
        picture = input[int(image)]
        cells = [picture[:, a:b, c:d].amax((-2, -1)) if b > a and d > c
                 else zeros(len(picture), dtype=input.dtype)
                 for a, b in down for c, d in across]
        regions.append(stack(cells, 1).reshape(-1, rows, columns))
    return stack(regions) if regions else zeros((0, input.shape[1], rows, columns), dtype=input.dtype)


def _rounded(value):
    """To the nearest int, halves away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _cells(start, extent, count, size):
    """[(first, end), ...] of the cells, cut off at the picture."""
    step = extent / count
    return [(min(max(math.floor(cell * step) + start, 0), size),
             min(max(math.ceil((cell + 1) * step) + start, 0), size)) for cell in range(count)]


class RoIAlign(nn.Module):
    """See `roi_align`."""

    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=False):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input, rois):
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self):
        return (f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
                f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned})")


class RoIPool(nn.Module):
    """See `roi_pool`."""

    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input, rois):
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self):
        return f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale})"


class MultiScaleRoIAlign(nn.Module):
    """`roi_align` from that one of several feature maps whose scale fits the region's size.

    Source: Lin et al., "Feature Pyramid Networks" (2017), equation 1.
    """

    def __init__(self, featmap_names, output_size, sampling_ratio, *, canonical_scale=224, canonical_level=4):
        super().__init__()
        self.featmap_names = featmap_names
        self.output_size = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
        self.sampling_ratio = sampling_ratio
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level

    def forward(self, x, boxes, image_shapes):
        maps = [features for name, features in x.items() if name in self.featmap_names]
        longest = [max(sizes) for sizes in zip(*image_shapes)]
        scales = [2.0 ** round(math.log2(features.shape[-2] / longest[0])) for features in maps]
        regions = regions_of(boxes)
        if len(maps) == 1:
            return roi_align(maps[0], regions, self.output_size, scales[0], self.sampling_ratio)
        first, last = -math.log2(scales[0]), -math.log2(scales[-1])
        sides = ((regions[:, 3] - regions[:, 1]) * (regions[:, 4] - regions[:, 2])).sqrt()
        levels = self.canonical_level + (sides / self.canonical_scale).log2() + 1e-6
        levels = levels.floor().clamp(first, last)
        result = zeros((len(regions), maps[0].shape[1], *self.output_size), dtype=maps[0].dtype)
        for level, (features, scale) in enumerate(zip(maps, scales)):
            members = (levels - first == level).nonzero()[:, 0]
            if len(members):
                pooled = roi_align(features, regions[members], self.output_size, scale, self.sampling_ratio)
                result = result.index_copy(0, members, pooled)
        return result

    def __repr__(self):
        return (f"{type(self).__name__}(featmap_names={self.featmap_names}, output_size={self.output_size}, "
                f"sampling_ratio={self.sampling_ratio})")
