"""The way through a sample: find the pictures, draw once, change every part in its way."""

from flambeau.base.tree import flatten, unflatten
from flambeau.nn import Module
from flambeau.tensor import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision._pillow import is_picture

TYPED = tv_tensors.Image, tv_tensors.Video, tv_tensors.Mask, tv_tensors.BoundingBoxes


def is_plain(part):
    """True for a tensor that does not say what it holds."""
    return isinstance(part, Tensor) and not isinstance(part, TYPED)


def changeable(parts):
    """For each part, whether it is changed: what is typed or a Pillow image; of plain tensors the first, and
    only if no other part is a picture."""
    has_picture = any(is_picture(part) or isinstance(part, (tv_tensors.Image, tv_tensors.Video))
                      for part in parts)
    found, first = [], True
    for part in parts:
        if is_plain(part):
            found.append(first and not has_picture)
            first = False
        else:
            found.append(is_picture(part) or isinstance(part, TYPED))
    return found


class Transform(Module):
    """A subclass defines `transform(inpt, params)`, and `make_params(flat_inputs)` if it draws."""

    def make_params(self, flat_inputs):
        return {}

    def transform(self, inpt, params):
        raise NotImplementedError

    def check_inputs(self, flat_inputs):
        pass

    def forward(self, *inputs):
        parts, structure = flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(parts)
        chosen = changeable(parts)
        params = self.make_params([part for part, wanted in zip(parts, chosen) if wanted])
        changed = [self.transform(part, params) if wanted else part for part, wanted in zip(parts, chosen)]
        return unflatten(changed, structure)

    def extra_repr(self):
        shown = [f"{name}={value}" for name, value in vars(self).items()
                 if not name.startswith("_") and name != "training"
                 and isinstance(value, (bool, int, float, str, tuple, list))]
        return ", ".join(shown)


def picture_of(parts):
    """The part that has the size of the picture."""
    for part in parts:
        if is_picture(part) or isinstance(part, Tensor):
            return part
    raise TypeError("no picture, mask or box was found in the sample")


def like(result, part):
    """`result` as the kind of `part`."""
    if isinstance(part, TYPED) and isinstance(result, Tensor):
        return tv_tensors.wrap(result, like=part)
    return result
