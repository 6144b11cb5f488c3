"""Arrays as pictures and sound: PNG and WAV bytes, grids of pictures, figures drawn."""

import struct
import zlib

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule, require

__all__ = ["as_array", "figure_array", "gif", "height_width_channels", "png", "wav"]

numpy = LazyModule("numpy")


def as_array(value, what="value"):
    """A tensor, NumPy array, number or sequence of numbers as a NumPy array; bfloat16 becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach()
        if str(value.dtype).endswith("bfloat16"):
            value = value.float()
        return value.resolve_conj().numpy() if value.is_complex() else value.numpy()
    array = numpy.asarray(value)
    if array.dtype == object or array.dtype.kind in "SU":
        raise NotImplementedError(
            f"[tensorboard] {what} should be a tensor, an array or a number: got {type(value).__name__}"
        )
    return array


def height_width_channels(pictures, dataformats):
    """A uint8 array (height, width, 1, 3 or 4 channels) of a picture, or of several side by side.

    Args:
        pictures: a tensor or array; floats count from 0 to 1, uint8 from 0 to 255.
        dataformats: a letter an axis: N, C, H, W in the order that they have. Without C the picture is grey.
    """
    array, letters = as_array(pictures, "the picture"), dataformats.upper()
    if len(letters) != array.ndim or len(set(letters)) != len(letters) or set(letters) - set("NCHW"):
        fail(
            "add_image",
            "the axes do not fit dataformats",
            tuple(array.shape),
            f"one axis a letter of {dataformats}",
            hint="dataformats='HWC' for pictures with the channels last",
            kind=AssertionError,
        )
    if array.dtype != numpy.uint8:
        array = (array.astype(numpy.float32) * 255).clip(0, 255).astype(numpy.uint8)
    order = [letters.index(letter) for letter in "NHWC" if letter in letters]
    array = array.transpose(order)
    if "C" not in letters:
        array = array[..., None]
    if array.shape[-1] == 1:
        array = numpy.repeat(array, 3, axis=-1)
    return grid(array) if "N" in letters else array


def grid(pictures, columns=8):
    """(N, H, W, C) -> one picture, up to `columns` in a row, black where there is none."""
    count, height, width, channels = pictures.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    whole = numpy.zeros((rows * columns, height, width, channels), numpy.uint8)
    whole[:count] = pictures
    whole = whole.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return whole.reshape(rows * height, columns * width, channels)


def png(picture):
    """The PNG file of a uint8 array (height, width, 3 or 4 channels)."""
    height, width, channels = picture.shape
    lines = numpy.zeros((height, width * channels + 1), numpy.uint8)  # each line begins with filter 0: none
    lines[:, 1:] = picture.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_boxes(picture, boxes, labels=None):
    """The picture with red outlines of `boxes` (n, 4: left, top, right, bottom in pixels); labels need
    Pillow."""
    picture = picture.copy()
    height, width, _ = picture.shape
    red = numpy.array([255, 0, 0, 255][: picture.shape[-1]], numpy.uint8)
    places = as_array(boxes, "the boxes").reshape(-1, 4).round().astype(int)
    for left, top, right, bottom in numpy.clip(places, 0, [width - 1, height - 1] * 2):
        inside = picture[top : bottom + 1, left : right + 1]
        for line in (inside[:2], inside[-2:], inside[:, :2], inside[:, -2:]):
            line[...] = red
    if labels is None:
        return picture
    drawn = require("PIL.Image", "tensorboard").fromarray(picture)
    draw = require("PIL.ImageDraw", "tensorboard").Draw(drawn)
    for (left, top, _, _), label in zip(places, labels):
        draw.text((int(left) + 2, int(top) + 1), str(label), fill="red")
    return numpy.asarray(drawn)


def gif(pictures, frames_per_second):
    """The GIF file of uint8 pictures (time, height, width, 3)."""
    import io

    image = require("PIL.Image", "tensorboard")
    frames = [image.fromarray(picture) for picture in pictures]
    file = io.BytesIO()
    frames[0].save(
        file, "GIF", save_all=True, append_images=frames[1:], loop=0, duration=1000 / frames_per_second
    )
    return file.getvalue()


def wav(sound, sample_rate):
    """The WAV file, 16 bits, one channel, of samples from -1 to 1; louder ones are cut with a warning."""
    import io
    import warnings
    import wave

    samples = as_array(sound, "the sound").astype(numpy.float64).reshape(-1)
    if samples.size and numpy.abs(samples).max() > 1:
        warnings.warn("[add_audio] samples beyond -1 ... 1 are cut", stacklevel=4)
    samples = (samples.clip(-1, 1) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(samples.tobytes())
    return file.getvalue(), samples.size


def figure_array(figures, close=True):
    """(channels, height, width) of a matplotlib figure as drawn, or (N, ...) of a list of them."""
    if isinstance(figures, (list, tuple)):
        return numpy.stack([figure_array(figure, close) for figure in figures])
    backend = require("matplotlib.backends.backend_agg", "demo")
    canvas = backend.FigureCanvasAgg(figures)
    canvas.draw()
    picture = numpy.array(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1)
    if close:
        require("matplotlib.pyplot", "demo").close(figures)
    return picture
