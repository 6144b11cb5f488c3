"""Pictures in a grid, pictures in a file, boxes, masks and points drawn on pictures."""

import math

from flambeau.tensor import Tensor, from_numpy, no_grad, stack, tensor
from flambeau.types.dtype import bool_, uint8
from flambeau.vision._pillow import image_module, pillow

__all__ = ["draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks", "make_grid", "save_image"]


@no_grad()
def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """The pictures of a batch in one picture.

    tensor: (count, channels, height, width), one picture, or a list of pictures. nrow: pictures in a row.
    normalize: scale from `value_range` (default: the smallest and the largest value) to 0 and 1, each picture
    for itself if scale_each.

    Returns:
        (3, rows * (height + padding) + padding, nrow * (width + padding) + padding).

    >>> import flambeau as fl
    >>> tuple(make_grid(fl.zeros(5, 3, 4, 4), nrow=3).shape)
    (3, 14, 20)
    """
    batch = _batch_of(tensor)
    if normalize:
        batch = _normalized(batch, value_range, scale_each)
    count, channels, height, width = batch.shape
    if count == 1:
        return batch[0]
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    size = (channels, (height + padding) * rows + padding, (width + padding) * columns + padding)
    grid = batch.new_full(size, pad_value)
    for index in range(count):
        top, left = (height + padding) * (index // columns), (width + padding) * (index % columns)
        grid[:, top + padding:top + padding + height, left + padding:left + padding + width] = batch[index]
    return grid


def _batch_of(tensor):
    """(count, channels, height, width); one channel becomes three."""
    if not isinstance(tensor, Tensor):
        if not isinstance(tensor, (list, tuple)) or not all(isinstance(each, Tensor) for each in tensor):
            raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
        tensor = stack(list(tensor), 0)
    if tensor.ndim == 2:
        tensor = tensor[None]
    if tensor.ndim == 3:
        tensor = (tensor.expand(3, -1, -1) if tensor.shape[0] == 1 else tensor)[None]
    if tensor.ndim == 4 and tensor.shape[1] == 1:
        tensor = tensor.expand(-1, 3, -1, -1)
    return tensor


def _normalized(batch, value_range, scale_each):
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
    batch = batch.clone()
    for part in batch if scale_each else (batch,):
        low, high = value_range or (float(part.min()), float(part.max()))
        part.clamp_(min=low, max=high)
        part.sub_(low).div_(max(high - low, 1e-5))
    return batch


@no_grad()
def save_image(tensor, fp, format=None, **kwargs):
    """Write a picture, or the grid of a batch (`kwargs` are `make_grid`'s), to a file name or an open file.

    >>> import io
    >>> file = io.BytesIO()
    >>> save_image(fl.rand(4, 3, 8, 8), file, format="png", nrow=2)
    >>> file.getvalue()[:4]
    b'\x89PNG'
    """
    grid = make_grid(tensor, **kwargs)
    pixels = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to(uint8).contiguous().numpy()
    _picture(pixels).save(fp, format=format)


def _picture(pixels):
    """(height, width, channels) bytes as a Pillow image."""
    height, width, channels = pixels.shape
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
    return image_module().frombytes(mode, (width, height), pixels.tobytes())


def _check_picture(image, name):
    if not isinstance(image, Tensor):
        raise TypeError(f"Tensor expected, got {type(image)}")
    if image.dtype != uint8 and not image.is_floating_point():
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.ndim != 3:
        raise ValueError("Pass individual images, not batches")
    if image.shape[0] not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")


def _as_bytes(image):
    """The picture as a writable array (height, width, 3)."""
    values = image if image.dtype == uint8 else image.mul(255 + 1 - 1e-3).to(uint8)
    values = values.expand(3, -1, -1) if values.shape[0] == 1 else values
    return values.permute(1, 2, 0).contiguous().numpy()


def _as_image(pixels, like):
    """An array (height, width, 3) as a tensor of the dtype of `like`."""
    import numpy
    values = from_numpy(numpy.array(pixels, copy=True)).permute(2, 0, 1)
    return values if like.dtype == uint8 else values.to(like.dtype) / 255


@no_grad()
def draw_bounding_boxes(image, boxes, labels=None, colors=None, fill=False, width=1, font=None,
                        font_size=None, label_colors=None, label_background_colors=None, fill_labels=False):
    """The picture (channels, height, width) with the boxes (count, 4), corners x, y, x, y, drawn on it."""
    _check_picture(image, "draw_bounding_boxes")
    if boxes.numel() and ((boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any()):
        raise ValueError("Boxes need to be in (xmin, ymin, xmax, ymax) format. Use "
                         "torchvision.ops.box_convert to convert them")
    count = len(boxes)
    if labels is not None and len(labels) != count:
        raise ValueError(f"Number of boxes ({count}) and labels ({len(labels)}) mismatch.")
    if count == 0:
        return image
    colors = _colors(colors, count)
    picture = image_module().fromarray(_as_bytes(image))
    pen = pillow("ImageDraw").Draw(picture, "RGBA" if fill else None)
    for index, box in enumerate(boxes.to(dtype=boxes.dtype).long().tolist()):
        inside = (*colors[index], 100) if fill else None
        pen.rectangle(box, width=width, outline=colors[index], fill=inside)
        if labels is not None and labels[index] is not None:
            text_color = _colors(label_colors, count)[index] if label_colors else colors[index]
            pen.text((box[0] + width + 1, box[1] + width + 1), labels[index], fill=text_color,
                     font=_font(font, font_size))
    return _as_image(picture, image)


def _font(font, size):
    fonts = pillow("ImageFont")
    return fonts.load_default() if font is None else fonts.truetype(font, size or 10)


@no_grad()
def draw_segmentation_masks(image, masks, alpha=0.8, colors=None):
    """The picture with each mask (boolean, (count, height, width) or (height, width)) in a colour.

    alpha: 0 shows the picture alone, 1 the colours alone.
    """
    _check_picture(image, "draw_segmentation_masks")
    masks = masks[None] if masks.ndim == 2 else masks
    if masks.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype != bool_:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if not len(masks):
        return image
    image = image.expand(3, -1, -1) if image.shape[0] == 1 else image
    painted = image.detach().clone()
    for mask, color in zip(masks, _colors(colors, len(masks))):
        values = tensor(color, dtype=uint8)
        if image.dtype != uint8:
            values = values.to(image.dtype) / 255
        painted[:, mask] = values[:, None].expand(3, int(mask.sum()))
    painted[:, masks.sum(0) > 1] = 0            # what several masks claim is dark
    mixed = image * (1 - alpha) + painted * alpha
    covered = masks.any(0)
    return mixed.to(image.dtype).where(covered, image)


@no_grad()
def draw_keypoints(image, keypoints, connectivity=None, colors=None, radius=2, width=3, visibility=None):
    """The picture with dots at keypoints (instances, points, 2), x and y, and lines between those
    connected.
    """
    _check_picture(image, "draw_keypoints")
    if keypoints.ndim != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    picture = image_module().fromarray(_as_bytes(image))
    pen = pillow("ImageDraw").Draw(picture)
    shown = visibility.tolist() if visibility is not None else [[True] * keypoints.shape[1]] * len(keypoints)
    color = _colors([colors] if isinstance(colors, (str, tuple)) else colors, 1)[0] if colors else "red"
    for points, visible in zip(keypoints.long().tolist(), shown):
        for (x, y), seen in zip(points, visible):
            if seen:
                pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=color, outline=None)
        for first, second in connectivity or ():
            if visible[first] and visible[second]:
                pen.line([*points[first], *points[second]], width=width)
    return _as_image(picture, image)


def _colors(colors, count):
    """`count` triples of a colour, a list of colours (names, '#rrggbb' or triples), or None for a palette."""
    if colors is None:
        steps = (2 ** 25 - 1, 2 ** 15 - 1, 2 ** 21 - 1)
        return [tuple(index * step % 255 for step in steps) for index in range(count)]
    if isinstance(colors, (str, tuple)):
        colors = [colors] * count
    if len(colors) < count:
        raise ValueError(f"Number of colors must be equal or larger than the number of objects, but got "
                         f"{len(colors)} < {count}.")
    parse = pillow("ImageColor").getrgb
    return [parse(color)[:3] if isinstance(color, str) else tuple(color) for color in colors[:count]]
