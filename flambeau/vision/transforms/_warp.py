"""Rotating, shearing and bending: where in the input each output pixel comes from."""

import math

from flambeau.nn import functional as F
from flambeau.tensor import cat, linspace, ones, tensor
from flambeau.vision.transforms._tensor import as_floats
from flambeau.vision.transforms.modes import mode_of


def inverse_matrix(center, angle, translate, scale, shear):
    """Six numbers (two rows) of the map from output to input places.

    Forward, a picture is moved to `center`, sheared along x and y, rotated by `angle`, scaled, moved back and
    moved by `translate`; all angles are in degrees.
    """
    turn, (along_x, along_y) = math.radians(angle), map(math.radians, shear)
    first = math.cos(turn - along_y) / math.cos(along_y), math.sin(turn - along_y) / math.cos(along_y)
    a, b = first[0], -first[0] * math.tan(along_x) - math.sin(turn)
    c, d = first[1], -first[1] * math.tan(along_x) + math.cos(turn)
    rows = [(d / scale, -b / scale), (-c / scale, a / scale)]       # the inverse: a d - b c is 1
    x, y = -center[0] - translate[0], -center[1] - translate[1]
    return [number for (p, q), middle in zip(rows, center) for number in (p, q, p * x + q * y + middle)]


def perspective_coefficients(startpoints, endpoints):
    """Eight numbers of the projective map that takes the four `endpoints` to the four `startpoints`."""
    import numpy
    rows, goals = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        goals += [u, v]
    solution = numpy.linalg.lstsq(numpy.array(rows, "float64"), numpy.array(goals, "float64"), rcond=None)[0]
    return solution.astype("float32").tolist()


def affine(img, matrix, interpolation, fill, size=None):
    """`matrix`: six numbers as `inverse_matrix` gives them, places counted from the middle."""
    floats, back = as_floats(img)
    height, width = img.shape[-2:]
    rows, columns = size or (height, width)
    x, y = _places(columns, floats), _places(rows, floats)[:, None]
    theta = tensor(matrix, dtype=floats.dtype).view(2, 3)
    a, b, c = (theta[0] / (0.5 * width)).unbind(0)
    d, e, f = (theta[1] / (0.5 * height)).unbind(0)
    return back(_sample(floats, a * x + b * y + c, d * x + e * y + f, interpolation, fill))


def _places(size, like):
    """Middles of pixels, counted from the middle of the row."""
    return linspace(0.5 - size * 0.5, size * 0.5 - 0.5, size, dtype=like.dtype)


def perspective(img, coefficients, interpolation, fill):
    floats, back = as_floats(img)
    height, width = img.shape[-2:]
    x = linspace(0.5, width - 0.5, width, dtype=floats.dtype)
    y = linspace(0.5, height - 0.5, height, dtype=floats.dtype)[:, None]
    a, b, c, d, e, f, g, h = coefficients
    below = g * x + h * y + 1.0
    across = (a / (0.5 * width)) * x + (b / (0.5 * width)) * y + c / (0.5 * width)
    down = (d / (0.5 * height)) * x + (e / (0.5 * height)) * y + f / (0.5 * height)
    return back(_sample(floats, across / below - 1.0, down / below - 1.0, interpolation, fill))


def elastic(img, displacement, interpolation, fill):
    """displacement: (1, height, width, 2), in halves of the picture."""
    floats, back = as_floats(img)
    height, width = img.shape[-2:]
    x = linspace((-width + 1) / width, (width - 1) / width, width, dtype=floats.dtype)
    y = linspace((-height + 1) / height, (height - 1) / height, height, dtype=floats.dtype)[:, None]
    moved = displacement.to(floats.dtype)[0]
    return back(_sample(floats, x + moved[..., 0], y + moved[..., 1], interpolation, fill))


def _sample(floats, x, y, interpolation, fill):
    """Read `floats` (batch, channels, height, width) at x, y in -1 to 1; `fill` is what lies outside."""
    mode = mode_of(interpolation).value
    grid = cat([x[..., None], y[..., None]], -1).expand(len(floats), *x.shape, 2).contiguous()
    if fill is None:
        return F.grid_sample(floats, grid, mode=mode, padding_mode="zeros", align_corners=False)
    covered = ones(len(floats), 1, *floats.shape[-2:], dtype=floats.dtype)
    both = F.grid_sample(cat([floats, covered], 1), grid, mode=mode, padding_mode="zeros",
                         align_corners=False)
    result, inside = both[:, :-1], both[:, -1:].expand_as(both[:, :-1])
    outside = tensor(fill, dtype=floats.dtype).reshape(1, -1, 1, 1).expand_as(result)
    if mode == "nearest":
        return outside.where(inside < 0.5, result)
    return result * inside + (1.0 - inside) * outside


def rotated_size(matrix, height, width):
    """(height, width) of the smallest picture that holds the rotated one."""
    corners = tensor([[x, y, 1.0] for x in (-0.5 * width, 0.5 * width)
                      for y in (-0.5 * height, 0.5 * height)])
    moved = corners @ tensor(matrix, dtype=corners.dtype).view(2, 3).T
    fine = 1e-4
    sizes = []
    for axis, size in ((1, height), (0, width)):
        places = moved[:, axis] + 0.5 * size
        low, high = (float((value / fine).trunc() * fine) for value in (places.min(), places.max()))
        sizes.append(math.ceil(high) - math.floor(low))
    return tuple(sizes)
