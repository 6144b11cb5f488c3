"""What is written of a value: summaries, as dicts in the form that `messages` encodes.

A summary is {"value": [...]}; each value has a tag, a content, and metadata that names the part of
TensorBoard that shows it.
"""

from flambeau.base.errors import ArgumentError, fail
from flambeau.base.lazy import LazyModule
from flambeau.track.messages import encode
from flambeau.track.pictures import as_array, figure_array, gif, height_width_channels, png, wav, with_boxes

__all__ = [
    "audio",
    "custom_scalars",
    "figure_array",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]

numpy = LazyModule("numpy")

_DTYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
_STRING = 7
_TEXT, _BOOL, _NUMBER = 1, 2, 3  # types of hyperparameters


def _one(tag, plugin=None, content=None, **value):
    if plugin is not None:
        value["metadata"] = {"plugin_data": {"plugin_name": plugin, "content": content}}
    return {"value": [{"tag": tag, **value}]}


def _tensor(array):
    array = numpy.asarray(array)
    if array.ndim == 0 and array.dtype.name in ("float32", "float64"):  # where programs look for a number
        field = {"float32": "float_val", "float64": "double_val"}[array.dtype.name]
        return {"dtype": _DTYPES[array.dtype.name], "tensor_shape": _shape(()), field: [float(array)]}
    return {
        "dtype": _DTYPES[array.dtype.name],
        "tensor_shape": _shape(array.shape),
        "tensor_content": array.tobytes(),
    }


def _shape(sizes):
    return {"dim": [{"size": size} for size in sizes]}


def number(value, what="scalar"):
    """A tensor or array of one element, or a number, as a float."""
    if isinstance(value, (int, float)):
        return float(value)
    array = as_array(value, what)
    if array.size != 1:
        raise AssertionError(f"[tensorboard] {what} should be one number: got the shape {tuple(array.shape)}")
    return float(array.reshape(()))


# ------------------------------------------------------------------------------ numbers
def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """One number: in the old form, or as a 0-d tensor of float32 or float64."""
    value = number(tensor)
    if not new_style:
        return _one(name, simple_value=value)
    return _one(
        name, "scalars", tensor=_tensor(numpy.array(value, "float64" if double_precision else "float32"))
    )


def tensor_proto(tag, tensor):
    """Any tensor."""
    return _one(tag, "tensor", tensor=_tensor(as_array(tensor)))


def default_limits():
    """The limits of buckets that grow by a tenth from 1e-12 to 1e20, to both sides of 0."""
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return numpy.array([-limit for limit in reversed(limits)] + [0.0] + limits)


def histogram(name, values, bins, max_bins=None):
    """Counts of values between limits.

    Args:
        bins: limits, or a rule of `numpy.histogram_bin_edges`.
        max_bins: join neighbours until there are no more than about so many.
    """
    values = as_array(values, "values").reshape(-1).astype(numpy.float64)
    if values.size == 0:
        raise ValueError("[add_histogram] values has no element")
    counts, limits = numpy.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        short = -len(counts) % step
        counts = numpy.pad(counts, (0, short)).reshape(-1, step).sum(1)
        limits = numpy.append(limits[:-1][::step], limits[-1])
    taken = numpy.flatnonzero(counts)
    if taken.size == 0:
        raise ValueError("[add_histogram] no value lies in any bucket: are all NaN or infinite?")
    first, last = taken[0], taken[-1]
    return histogram_raw(
        name,
        values.min(),
        values.max(),
        values.size,
        values.sum(),
        values @ values,
        limits[first : last + 2],
        [0, *counts[first : last + 1]],
    )


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A histogram that is counted already: each bucket ends at its limit."""
    limits, counts = (as_array(each).reshape(-1).tolist() for each in (bucket_limits, bucket_counts))
    if len(limits) != len(counts):
        raise ValueError(
            f"[add_histogram_raw] one limit a count: got {len(limits)} limits and {len(counts)} counts"
        )
    numbers = dict(
        zip(("min", "max", "num", "sum", "sum_squares"), map(number, (min, max, num, sum, sum_squares)))
    )
    return _one(name, histo={**numbers, "bucket_limit": limits, "bucket": counts})


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """True and false positives and negatives, precision and recall at thresholds from 0 to 1."""
    num_thresholds = min(num_thresholds, 127)  # what fits a sprite of TensorBoard's
    labels = as_array(labels, "labels").reshape(-1).astype(bool)
    predictions = as_array(predictions, "predictions").reshape(-1)
    weights = numpy.ones(labels.shape) if weights is None else as_array(weights, "weights").reshape(-1)
    places = numpy.floor(predictions * (num_thresholds - 1)).astype(int).clip(0, num_thresholds - 1)

    def at_least(chosen):
        found = numpy.bincount(places[chosen], weights[chosen], num_thresholds)
        return found[::-1].cumsum()[::-1]

    positive, negative = at_least(labels), at_least(~labels)
    missed = positive[0] - positive
    precision, recall = (
        positive / numpy.maximum(whole, 1e-7) for whole in (positive + negative, positive + missed)
    )
    return pr_curve_raw(
        tag, positive, negative, negative[0] - negative, missed, precision, recall, num_thresholds
    )


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    """The same, counted already."""
    rows = numpy.stack([as_array(each).reshape(-1) for each in (tp, fp, tn, fn, precision, recall)])
    content = encode("PrCurve", {"version": 0, "num_thresholds": min(num_thresholds, 127)})
    return _one(tag, "pr_curves", content, tensor=_tensor(rows.astype(numpy.float32)))


# ------------------------------------------------------------------------------ pictures, sound, text
def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """A picture, or several as a grid."""
    return _picture(tag, height_width_channels(tensor, dataformats), rescale)


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with boxes outlined."""
    picture = height_width_channels(tensor_image, dataformats)
    return _picture(tag, with_boxes(picture, tensor_boxes, labels), rescale)


def _picture(tag, picture, rescale):
    if rescale != 1:
        rows, columns = (
            numpy.minimum((numpy.arange(int(size * rescale)) / rescale).astype(int), size - 1)
            for size in picture.shape[:2]
        )
        picture = picture[rows][:, columns]
    return _image(tag, picture.shape, png(picture))


def _image(tag, shape, encoded):
    """A summary of a picture, (height, width, channels), or of a moving one."""
    height, width, channels = shape
    return _one(
        tag,
        image={"height": height, "width": width, "colorspace": channels, "encoded_image_string": encoded},
    )


def video(tag, tensor, fps=4):
    """Moving pictures (batch, time, channels, height, width), those of the batch side by side."""
    frames = as_array(tensor, "the video")
    if frames.ndim != 5:
        fail(
            "add_video",
            "the shape is not that of a video",
            tuple(frames.shape),
            "(batch, time, channels, height, width)",
            kind=ArgumentError,
        )
    frames = numpy.stack([height_width_channels(frame, "NCHW") for frame in frames.swapaxes(0, 1)])
    return _image(tag, frames.shape[1:], gif(frames, fps))


def audio(tag, tensor, sample_rate=44100):
    """Sound, one channel of samples from -1 to 1."""
    data, length = wav(tensor, int(sample_rate))
    return _one(
        tag,
        audio={
            "sample_rate": sample_rate,
            "num_channels": 1,
            "length_frames": length,
            "encoded_audio_string": data,
            "content_type": "audio/wav",
        },
    )


def text(tag, text):
    """Text, shown as Markdown."""
    return _one(
        tag + "/text_summary",
        "text",
        tensor={"dtype": _STRING, "tensor_shape": _shape([1]), "string_val": [str(text).encode()]},
    )


_MESH_CONTENT = {"VERTEX": 1, "FACE": 2, "COLOR": 3}


def mesh(tag, vertices, colors, faces, config_dict=None, display_name=None, description=None):
    """Points (batch, n, 3) in space, with colours (batch, n, 3) and triangles (batch, m, 3) if there are
    any."""
    import json

    parts = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
    parts = {kind: as_array(part, kind.lower()) for kind, part in parts.items() if part is not None}
    components = sum(1 << _MESH_CONTENT[kind] for kind in parts)
    values = []
    for kind, part in parts.items():
        content = encode(
            "Mesh",
            {
                "version": 0,
                "name": tag,
                "content_type": _MESH_CONTENT[kind],
                "json_config": json.dumps(config_dict or {}, sort_keys=True),
                "shape": part.shape,
                "components": components,
            },
        )
        made = _one(f"{tag}_{kind}", "mesh", content, tensor=_tensor(part.astype(numpy.float32)))["value"][0]
        made["metadata"] |= {"display_name": display_name, "summary_description": description}
        values.append(made)
    return {"value": values}


# ------------------------------------------------------------------------------ what describes a run
def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """The three summaries of a run with hyperparameters: what they are, their values, the end.

    Args:
        hparam_dict: name -> bool, str, number or one-element tensor; None is left out.
        metric_dict: name -> value; a metric is a scalar of that tag.
        hparam_domain_discrete: name -> the values that it may have.
    """
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        fail(
            "add_hparams",
            "hparam_dict and metric_dict are dicts",
            f"{type(hparam_dict).__name__} and {type(metric_dict).__name__}",
            kind=ArgumentError,
        )
    domains = hparam_domain_discrete or {}
    for name, domain in domains.items():
        if name not in hparam_dict or not isinstance(domain, (list, tuple)):
            fail(
                "add_hparams",
                f"hparam_domain_discrete[{name!r}] is a list of values of a hyperparameter",
                domain,
                kind=ArgumentError,
            )
    known = {name: _any(name, value) for name, value in hparam_dict.items() if value is not None}
    infos = [
        {
            "name": name,
            "type": kind,
            "domain_discrete": {"values": [_any(name, each)[1] for each in domains[name]]}
            if name in domains
            else None,
        }
        for name, (kind, _) in known.items()
    ]
    parts = {
        "experiment": {
            "hparam_infos": infos,
            "metric_infos": [{"name": {"tag": tag}} for tag in metric_dict],
        },
        "session_start_info": {
            "hparams": [{"key": name, "value": value} for name, (_, value) in known.items()]
        },
        "session_end_info": {"status": 1},
    }
    return tuple(
        _one(f"_hparams_/{part}", "hparams", encode("HParams", {"version": 0, part: content}))
        for part, content in parts.items()
    )


def _any(name, value):
    """(type, value) of a hyperparameter."""
    if isinstance(value, bool):
        return _BOOL, {"bool_value": value}
    if isinstance(value, str):
        return _TEXT, {"string_value": value}
    if isinstance(value, (int, float)) or hasattr(value, "item"):
        return _NUMBER, {"number_value": number(value, f"the hyperparameter {name}")}
    raise ValueError(
        f"[add_hparams] {name}: a hyperparameter is an int, float, str, bool or a tensor of one element: "
        f"got {type(value).__name__}"
    )


def custom_scalars(layout):
    """The layout of charts: {category: {title: ["Multiline" or "Margin", [tags]]}}."""
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                value, lower, upper = tags
                made.append(
                    {"title": title, "margin": {"series": [{"value": value, "lower": lower, "upper": upper}]}}
                )
            else:
                made.append({"title": title, "multiline": {"tag": tags}})
        categories.append({"title": category, "chart": made})
    content = encode("Layout", {"category": categories})
    return _one(
        "custom_scalars__config__",
        "custom_scalars",
        tensor={"dtype": _STRING, "tensor_shape": _shape([]), "string_val": [content]},
    )
