"""The operations on tensors (..., channels, height, width). Each takes checked arguments; `functional` is the
door.
"""

from flambeau.nn import functional as F
from flambeau.ops import bincount, where
from flambeau.tensor import as_tensor, cat, linspace, stack, tensor, zeros, zeros_like
from flambeau.types.dtype import bool_, float32, float64, int16, int32, int64, int8, uint8, uint16
from flambeau.vision.transforms.modes import InterpolationMode, mode_of

_LARGEST = {bool_: 1, uint8: 255, int8: 127, int16: 32767, uint16: 65535, int32: 2 ** 31 - 1,
            int64: 2 ** 63 - 1}
_GREY = (0.2989, 0.587, 0.114)


def largest(dtype):
    """The value of white."""
    return _LARGEST.get(dtype, 1)


def dimensions(img):
    """[channels, height, width]"""
    return [1 if img.ndim == 2 else img.shape[-3], img.shape[-2], img.shape[-1]]


def require_channels(img, permitted):
    channels = dimensions(img)[0]
    if channels not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {list(permitted)}, but found "
                        f"{channels}")


def convert_dtype(image, dtype):
    """Another dtype, scaled so that white stays white."""
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        return _from_float(image, dtype)
    white = largest(image.dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / white
    ratio = (largest(dtype) + 1) / (white + 1)
    if ratio < 1:
        return image.div(int(1 / ratio), rounding_mode="floor").to(dtype)
    return image.to(dtype) * int(ratio)


def _from_float(image, dtype):
    if dtype.is_floating_point:
        return image.to(dtype)
    if image.dtype == float32 and dtype in (int32, int64) or image.dtype == float64 and dtype == int64:
        raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
    return image.mul(largest(dtype) + 1.0 - 1e-3).to(dtype)


def as_floats(img, dtypes=(float32, float64)):
    """The image as a batch of floats, and a function that puts a result into the image's form."""
    batch = img if img.ndim >= 4 else img[None] if img.ndim == 3 else img[None, None]
    head = batch.shape[:-3]
    floats = batch.reshape(-1, *batch.shape[-3:])
    if floats.dtype not in dtypes:
        floats = floats.to(float32)

    def back(result):
        if img.dtype != result.dtype:
            if not img.is_floating_point():
                result = result.round()
            result = result.to(img.dtype)
        result = result.reshape(*head, *result.shape[-3:])
        return result if img.ndim >= 4 else result[0] if img.ndim == 3 else result[0, 0]
    return floats, back


def hflip(img):
    return img.flip(-1)


def vflip(img):
    return img.flip(-2)


def crop(img, top, left, height, width):
    rows, columns = img.shape[-2:]
    bottom, right = top + height, left + width
    inside = img[..., max(top, 0):max(bottom, 0), max(left, 0):max(right, 0)]
    if left >= 0 and top >= 0 and right <= columns and bottom <= rows:
        return inside
    around = [max(min(right, 0) - left, 0), max(right - max(columns, left), 0),
              max(min(bottom, 0) - top, 0), max(bottom - max(rows, top), 0)]
    return F.pad(inside, around)


def resize(img, size, interpolation, antialias):
    mode = mode_of(interpolation)
    if mode.value not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise ValueError("This interpolation mode is unsupported with Tensor input")
    smooth = mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
    if not smooth and img.ndim >= 3:
        return F.interpolate(img.reshape(-1, *img.shape[-3:]), list(size), mode=mode.value).reshape(
            *img.shape[:-2], *size)
    floats, back = as_floats(img)
    result = F.interpolate(floats, size=list(size), mode=mode.value, antialias=bool(antialias and smooth),
                           **({"align_corners": False} if smooth else {}))
    if mode is InterpolationMode.BICUBIC and img.dtype == uint8:
        result = result.clamp(0, 255)
    return back(result)


def pad(img, padding, fill, mode):
    left, top, right, bottom = padding
    if mode == "symmetric":
        return _pad_symmetric(img, padding)
    around = [left, right, top, bottom]
    if mode == "constant":
        return F.pad(img, around, value=float(fill) if img.is_floating_point() else fill)
    floats, back = as_floats(img)
    return back(F.pad(floats, around, mode={"edge": "replicate"}.get(mode, mode)))


def _pad_symmetric(img, padding):
    left, top, right, bottom = padding
    rows = _mirrored(img.shape[-2], top, bottom)
    columns = _mirrored(img.shape[-1], left, right)
    return img[..., rows[:, None], columns]


def _mirrored(size, before, after):
    places = [place % (2 * size) for place in range(-before, size + after)]
    return tensor([place if place < size else 2 * size - 1 - place for place in places])


def to_grayscale(img, channels=1):
    require_channels(img, (1, 3))
    if img.shape[-3] == 3:
        red, green, blue = img.unbind(-3)
        grey = (_GREY[0] * red + _GREY[1] * green + _GREY[2] * blue).to(img.dtype).unsqueeze(-3)
    else:
        grey = img.clone()
    return grey.expand(*img.shape[:-3], 3, *img.shape[-2:]) if channels == 3 else grey


def blend(first, second, ratio):
    """ratio * first + (1 - ratio) * second, between black and white."""
    ratio = float(ratio)
    mixed = ratio * first + (1.0 - ratio) * second
    return mixed.clamp(0, 1.0 if first.is_floating_point() else largest(first.dtype)).to(first.dtype)


def adjust_brightness(img, factor):
    return blend(img, zeros_like(img), factor)


def adjust_contrast(img, factor):
    require_channels(img, (1, 3))
    kind = img.dtype if img.is_floating_point() else float32
    grey = to_grayscale(img) if img.shape[-3] == 3 else img
    return blend(img, grey.to(kind).mean((-3, -2, -1), keepdim=True), factor)


def adjust_saturation(img, factor):
    require_channels(img, (1, 3))
    return img if img.shape[-3] == 1 else blend(img, to_grayscale(img), factor)


def adjust_hue(img, factor):
    require_channels(img, (1, 3))
    if img.shape[-3] == 1:
        return img
    hue, saturation, value = _to_hsv(convert_dtype(img, float32) if not img.is_floating_point() else img)
    return convert_dtype(_to_rgb((hue + factor) % 1.0, saturation, value), img.dtype)


def _to_hsv(img):
    red, green, blue = img.unbind(-3)
    high, low = img.amax(-3), img.amin(-3)
    grey = high == low
    span = high - low
    saturation = span / where(grey, 1.0, high)
    divisor = where(grey, 1.0, span)
    r, g, b = ((high - channel) / divisor for channel in (red, green, blue))
    red_most, green_most = high == red, (high == green) & (high != red)
    hue = (red_most * (b - g) + green_most * (2.0 + r - b)
           + ((high != green) & (high != red)) * (4.0 + g - r))
    return (hue / 6.0 + 1.0).fmod(1.0), saturation, high


def _to_rgb(hue, saturation, value):
    sector = (hue * 6.0).floor()
    part = hue * 6.0 - sector
    p = (value * (1.0 - saturation)).clamp(0.0, 1.0)
    q = (value * (1.0 - saturation * part)).clamp(0.0, 1.0)
    t = (value * (1.0 - saturation * (1.0 - part))).clamp(0.0, 1.0)
    which = (sector.to(int32) % 6).to(int64).unsqueeze(0)
    channels = ((value, q, p, p, t, value), (t, value, value, q, p, p), (p, p, t, value, value, q))
    return stack([stack(choice).gather(0, which)[0] for choice in channels], dim=-3)


def adjust_gamma(img, gamma, gain):
    floats = img if img.is_floating_point() else convert_dtype(img, float32)
    return convert_dtype((gain * floats ** gamma).clamp(0, 1), img.dtype)


def adjust_sharpness(img, factor):
    return img if min(img.shape[-2:]) <= 2 else blend(img, _softened(img), factor)


def _softened(img):
    """The mean of 3 x 3 pixels, the middle one five times, inside; the border stays."""
    floats, back = as_floats(img)
    weights = tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]], dtype=floats.dtype) / 13.0
    channels = floats.shape[1]
    inside = F.conv2d(floats, weights.expand(channels, 1, 3, 3).contiguous(), groups=channels)
    softened = img.clone()
    softened[..., 1:-1, 1:-1] = back(inside)
    return softened


def posterize(img, bits):
    return img & -int(2 ** (8 - bits)) if img.dtype != uint8 else img & (256 - int(2 ** (8 - bits)))


def solarize(img, threshold):
    return where(img >= threshold, invert(img), img)


def invert(img):
    return largest(img.dtype) - img


def autocontrast(img):
    white = largest(img.dtype)
    floats = img if img.is_floating_point() else img.to(float32)
    low, high = floats.amin((-2, -1), keepdim=True), floats.amax((-2, -1), keepdim=True)
    flat = low == high
    scale = where(flat, 1.0, (high - low).reciprocal() * white)
    return ((floats - where(flat, 0.0, low)) * scale).clamp(0, white).to(img.dtype)


def equalize(img):
    if img.dtype != uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    channels = img.reshape(-1, *img.shape[-2:])
    return stack([_equalized(channel) for channel in channels.unbind(0)]).reshape(img.shape)


def _equalized(channel):
    counts = bincount(channel.reshape(-1).to(int64), minlength=256)
    present = counts[counts != 0]
    step = int(present[:-1].sum()) // 255
    if step == 0:
        return channel
    table = (counts.cumsum(0) + step // 2).div(step, rounding_mode="floor")
    table = cat([zeros(1, dtype=int64), table[:-1]]).clamp(0, 255)
    return table[channel.to(int64)].to(uint8)


def gaussian_blur(img, kernel_size, sigma):
    """kernel_size, sigma: [x, y]."""
    floats, back = as_floats(img)
    across, down = (_gaussian(size, width, floats.dtype) for size, width in zip(kernel_size, sigma))
    weights, channels = down[:, None] @ across[None, :], floats.shape[1]
    x, y = kernel_size[0] // 2, kernel_size[1] // 2
    padded = F.pad(floats, [x, x, y, y], mode="reflect")
    return back(F.conv2d(padded, weights.expand(channels, 1, *weights.shape).contiguous(), groups=channels))


def _gaussian(size, sigma, dtype):
    half = (size - 1) * 0.5
    weights = (linspace(-half, half, size, dtype=dtype) / sigma).square().mul(-0.5).exp()
    return weights / weights.sum()


def normalize(image, mean, std, inplace=False):
    if not inplace:
        image = image.clone()
    mean, std = (as_tensor(values, dtype=image.dtype, device=image.device) for values in (mean, std))
    if (std == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {image.dtype}, leading to division by "
                         f"zero.")
    mean, std = (values.view(-1, 1, 1) if values.ndim == 1 else values for values in (mean, std))
    return image.sub_(mean).div_(std)
