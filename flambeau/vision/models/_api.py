"""Builders of models by name, and the weights that they can start with.

    @builder("ResNet18_Weights")
    def resnet18(**options): return ResNet(BasicBlock, [2, 2, 2, 2], **options)

A builder takes `weights=` (a member of its enum, the member's name, or None). The enum is put into the
builder's module under its name. A file is looked for in `$TORCH_HOME/hub/checkpoints` (default
`~/.cache/torch`), then fetched.
"""

import difflib
import fnmatch
import functools
import importlib
import inspect
import os
import sys
import warnings
from enum import Enum

from flambeau.base.errors import fail
from flambeau.vision.models import _weights

_SOURCE = "https://download.pytorch.org/models/"
_PACKAGES = "flambeau.vision.models", "flambeau.vision.models.segmentation"
_table = functools.cache(_weights.table)


class Meta(dict):
    """Facts on weights."""

    def __missing__(self, key):
        raise KeyError(f"{key!r}: Flambeau keeps of these weights only {', '.join(map(repr, self))}")


class Weights:
    """A file of weights: its `url`, how to prepare pictures (`transforms()`), facts (`meta`)."""

    def __init__(self, url, transforms, meta):
        self.url, self.transforms, self.meta = url, transforms, meta

    def __repr__(self):
        return f"Weights(url={self.url!r})"


class UnknownWeights(ValueError, KeyError):
    """A name that is none of an enum of weights."""

    __str__ = Exception.__str__


class WeightsEnum(Enum):
    """The weights of one model; DEFAULT is the best."""

    @classmethod
    def verify(cls, obj):
        """`obj` (a member, its name, or None) as a member or None."""
        if isinstance(obj, str):
            name = obj.removeprefix(f"{cls.__name__}.")
            if name not in cls.__members__:
                fail("weights", f"{cls.__name__} has no such member", repr(name),
                     ", ".join(cls.__members__), kind=UnknownWeights)
            return cls[name]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(f"Invalid Weight class provided; expected {cls.__name__} but received "
                            f"{type(obj).__name__}.")
        return obj

    @property
    def url(self):
        """Where the file of the parameters comes from."""
        return self.value.url

    @property
    def transforms(self):
        """The function that makes the transform of pictures for these parameters."""
        return self.value.transforms

    @property
    def meta(self):
        """What is known of them: `num_params`."""
        return self.value.meta

    def get_state_dict(self, progress=True, check_hash=True, map_location=None):
        """The parameters, from the local file or from the network."""
        from flambeau.tensor import load
        return load(local_file(self.url), map_location=map_location or "cpu")

    def __repr__(self):
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__


def enum_of(name, module):
    """The enum called `name`, made from its rows in `_weights`."""
    members, default = {}, None
    for member, is_default, file, count, crop, resized, interpolation in _table()[name]:
        transforms = functools.partial(preset, crop, resized, interpolation)
        members[member] = Weights(_SOURCE + file, transforms, Meta(num_params=count))
        default = members[member] if is_default else default
    return WeightsEnum(name, {**members, "DEFAULT": default}, module=module)


def preset(crop, resized, interpolation, **changes):
    """The transform of pictures for weights."""
    from flambeau.vision.transforms import _presets
    if crop is None:
        return _presets.SemanticSegmentation(**{"resize_size": resized, **changes})
    options = {"crop_size": crop, "resize_size": resized, "interpolation": interpolation}
    return _presets.ImageClassification(**{**options, **changes})


def local_file(url):
    """The path of the file in the hub's folder of weights, fetched if it is not there."""
    from flambeau.hub import download
    name = url.rpartition("/")[2]
    folder = os.path.join(download.get_dir(), "checkpoints")
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        os.makedirs(folder, exist_ok=True)
        try:
            download.download_url_to_file(url, path, download.HASH_REGEX.search(name)[1])
        except OSError as error:
            fail("weights", f"cannot fetch {url}", got=getattr(error, "reason", error),
                 want=f"the file {path}",
                 hint="without a network, fetch it elsewhere and put it there, or use weights=None")
    return path


# ---------------------------------------------------------------------------------- builders
def builder(enum_name, classes=1000, fixed=(), rename=None):
    """Decorator of a function of options that builds a model (see the top of this module).

    fixed: options that come with the weights. rename: function of the file's state dict.
    """
    def decorate(build):
        module = build.__module__
        enum = enum_of(enum_name, module)
        setattr(sys.modules[module], enum_name, enum)
        takes_weights = "weights" in inspect.signature(build).parameters

        @functools.wraps(build)
        def make(*args, weights=None, progress=True, **options):
            weights = chosen(enum, args, weights, options)
            if weights is not None:
                for name, value in {"num_classes": classes, **dict(fixed)}.items():
                    if options.setdefault(name, value) != value:
                        raise ValueError(f"The parameter '{name}' expected value {value} but got "
                                         f"{options[name]} instead.")
            model = build(weights=weights, **options) if takes_weights else build(**options)
            if weights is not None:
                state = weights.get_state_dict(progress=progress, check_hash=True)
                model.load_state_dict(rename(state) if rename else state)
            return model

        kinds = inspect.Parameter
        make.__signature__ = inspect.Signature([
            kinds("weights", kinds.KEYWORD_ONLY, default=None),
            kinds("progress", kinds.KEYWORD_ONLY, default=True),
            kinds("kwargs", kinds.VAR_KEYWORD)])
        make.weights_enum = enum
        return make
    return decorate


def chosen(enum, args, weights, options):
    """The member that a call asks for, or None; `pretrained` and positional arguments are the old ways."""
    if args:
        warnings.warn("Using 'weights' as positional parameter(s) is deprecated since 0.13 and may be "
                      "removed in the future. Please use keyword parameter(s) instead.", stacklevel=3)
        weights = args[0]
    if "pretrained" in options:
        warnings.warn("The parameter 'pretrained' is deprecated since 0.13 and may be removed in the "
                      "future, please use 'weights' instead.", stacklevel=3)
        weights = options.pop("pretrained")
    if isinstance(weights, bool):
        weights = next(iter(enum)) if weights else None
    return enum.verify(weights)


def names():
    """name -> package, of all builders."""
    found = {}
    for package in _PACKAGES:
        modules = importlib.import_module(package).BUILDERS
        found |= {name: package for builders in modules.values() for name in builders}
    return found


def list_models(module=None, include=None, exclude=None):
    """The names of the models (of one package), in order; include and exclude are patterns.

    >>> list_models(include="resnet*", exclude="resnet1*")
    ['resnet34', 'resnet50']
    """
    known = names()
    found = {name for name, package in known.items() if module is None or package == module.__name__}
    for patterns, keep in ((include, True), (exclude, False)):
        patterns = [patterns] if isinstance(patterns, str) else patterns or []
        if patterns:
            found = {name for name in found
                     if any(fnmatch.fnmatch(name, pattern) for pattern in patterns) is keep}
    return sorted(found)


def get_model_builder(name):
    """The function that builds the model called `name`."""
    package = names().get(name.lower())
    if package is None:
        near = difflib.get_close_matches(name.lower(), names(), 3)
        fail("models", f"Unknown model {name}", kind=ValueError,
             hint=f"near to it: {', '.join(near)}" if near else "list_models() names those there are")
    return getattr(importlib.import_module(package), name.lower())


def get_model(name, **config):
    """The model called `name`.

    >>> tuple(get_model("squeezenet1_1", num_classes=7)(fl.ones(1, 3, 64, 64)).shape)
    (1, 7)
    """
    return get_model_builder(name)(**config)


def get_model_weights(name):
    """The enum of the weights of a model: by its name or its builder."""
    return (name if callable(name) else get_model_builder(name)).weights_enum


def get_weight(name):
    """'ResNet50_Weights.IMAGENET1K_V2' as a member."""
    enum_name, _, member = name.partition(".")
    for package in map(importlib.import_module, _PACKAGES):
        enum = getattr(package, enum_name, None)
        if enum is not None:
            return enum[member]
    raise ValueError(f"The weight enum '{enum_name}' couldn't be retrieved.")
