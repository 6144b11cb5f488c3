"""The files of TensorBoard's projector: points as text, labels, a sprite of small pictures, and what belongs
together."""

import math
import os

from flambeau.base.errors import ArgumentError, fail
from flambeau.base.lazy import LazyModule
from flambeau.track.pictures import as_array, height_width_channels, png

__all__ = ["write_embedding"]

numpy = LazyModule("numpy")


def write_embedding(
    folder, points, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None
):
    """Write points (n, d) with a label and a picture each into `folder`, and name them in its
    projector_config.pbtxt.

    Args:
        metadata: n labels, or with `metadata_header` n rows of them.
        label_img: pictures (n, channels, height, width).
        metadata_header: the names of the columns of `metadata`.
    """
    points = as_array(points, "mat")
    if points.ndim != 2:
        fail(
            "add_embedding",
            "mat is a matrix, a row a point",
            tuple(points.shape),
            "(points, dimensions)",
            kind=ArgumentError,
        )
    for name, each in (("metadata", metadata), ("label_img", label_img)):
        if each is not None and len(each) != len(points):
            raise AssertionError(
                f"[add_embedding] {name} has one entry a point: got {len(each)} for {len(points)}"
            )
    place = f"{0 if global_step is None else int(global_step):05d}/{tag.replace('/', '_').replace(':', '_')}"
    os.makedirs(os.path.join(folder, place), exist_ok=True)
    lines = [f'  tensor_name: "{tag}:{place[:5]}"']
    if metadata is not None:
        rows = metadata
        if metadata_header is not None:
            rows = ["\t".join(map(str, row)) for row in [metadata_header, *metadata]]
        _write_lines(folder, f"{place}/metadata.tsv", map(str, rows))
        lines.append(f'  metadata_path: "{place}/metadata.tsv"')
    if label_img is not None:
        sprite, height, width = _sprite(label_img)
        with open(os.path.join(folder, place, "sprite.png"), "wb") as file:
            file.write(png(sprite))
        lines += [
            "  sprite {",
            f'    image_path: "{place}/sprite.png"',
            f"    single_image_dim: {width}",
            f"    single_image_dim: {height}",
            "  }",
        ]
    _write_lines(folder, f"{place}/tensors.tsv", ("\t".join(map(str, row)) for row in points.tolist()))
    lines.append(f'  tensor_path: "{place}/tensors.tsv"')
    _name_in_config(
        os.path.join(folder, "projector_config.pbtxt"), "\n".join(["embeddings {", *lines, "}", ""])
    )


def _write_lines(folder, name, lines):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def _sprite(pictures):
    """(a square of pictures, the height and the width of one)."""
    pictures = as_array(pictures, "label_img")
    side = math.ceil(math.sqrt(len(pictures)))
    height, width = pictures.shape[2:]
    whole = numpy.zeros((side * side, *pictures.shape[1:]), pictures.dtype)
    whole[: len(pictures)] = pictures
    rows = whole.reshape(side, side, *whole.shape[1:]).transpose(2, 0, 3, 1, 4)  # channels, down, across
    return height_width_channels(rows.reshape(-1, side * height, side * width), "CHW"), height, width


def _name_in_config(path, entry):
    known = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = file.read()
    if entry not in known:
        with open(path, "a", encoding="utf-8") as file:
            file.write(entry)
