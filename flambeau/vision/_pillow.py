"""Pillow, fetched when a picture is first touched."""

import functools
import sys

from flambeau.base.lazy import require


@functools.cache
def pillow(name):
    """The module PIL.<name>; MissingExtra names the extra."""
    return require(f"PIL.{name}", extra="vision")


def image_module():
    """The module PIL.Image."""
    return pillow("Image")


def is_picture(value):
    """True for a Pillow image; imports nothing."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)
