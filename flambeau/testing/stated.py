"""What the tests try with ops whose class does not state it: operands, shapes and attributes.

A class that states `samples`, `shapes` or `cases` itself is never looked up here.
"""

from flambeau.types.dtype import bfloat16, bool_, float16, float32, int32

# Ops that exist as derivatives of others: the derivatives of those to second order are their test.
TESTED_BY = {
    "unslice": "slice_", "index_sum": "index_select", "gather_sum": "gather",
    "max_pool2d_gradient": "max_pool2d_with_indices",
    "convolution_weight_gradient": "convolution", "convolution_input_gradient": "convolution",
    "resample_axis_gradient": "resample_axis",
    "grid_sample_image_gradient": "grid_sample", "grid_sample_places_gradient": "grid_sample",
    "attention_gradient": "attention",
    "_scatter_rows_into": "_scatter_rows", "_scatter_elements_into": "_scatter_elements",   # test_scatter_in_place
    # their further results are no function of the operands to differentiate: tests/ops/test_recurrent.py
    **dict.fromkeys(("recurrent_layer", "recurrent_gradient", "recurrent_weight_gradient", "stacked_states"),
                    "lstm_gates"),
    # a view of operands that have no view in some layouts: tests/tensor/test_views.py
    "view": "reshape",
    # their operands are tables that belong together: tests/nn/test_ctc.py
    **dict.fromkeys(("ctc_loss", "ctc_loss_gradient", "ctc_loss_second_gradient"), "nll_loss"),
    # compared with written-down trajectories and the unfused path: tests/optim/test_more_optimizers.py
    **{f"{name}_update": "adam_update" for name in ("rmsprop", "adagrad", "adadelta", "adamax", "nadam", "radam", "asgd",
                                                    "rprop")},
}


def _uniform(rng, *shapes):
    return [rng.uniform(-3, 3, s) for s in shapes]


def _index_select(rng, shape):
    return [rng.uniform(-3, 3, shape), rng.integers(0, min(shape), 4)]


def _gather(rng, shape):
    return [rng.uniform(-3, 3, shape), rng.integers(0, min(shape), shape)]


def _layer_norm(rng, shape):
    return _uniform(rng, shape, shape[-1:], shape[-1:])


def _batch_norm_train(rng, shape):
    return _uniform(rng, shape, shape[1:2], shape[1:2])


def _batch_norm_eval(rng, shape):
    x, mean, weight, bias = _uniform(rng, shape, shape[1:2], shape[1:2], shape[1:2])
    return [x, mean, rng.uniform(0.5, 2, shape[1:2]), weight, bias]


def _cat(rng, shape):
    return [_uniform(rng, shape, shape, shape)]


SAMPLES = {"index_select": _index_select, "gather": _gather, "layer_norm": _layer_norm, "cat": _cat,
           "batch_norm_train": _batch_norm_train, "batch_norm_eval": _batch_norm_eval}

SHAPES = {
    "permute": ((2, 3, 33), (1, 5, 7)), "expand": ((1, 1), (1, 5), (3, 5)),
    "slice_": ((2,), (3, 5, 7), (2, 3, 33)),
    "index_select": ((7,), (5, 7), (2, 3, 33)), "gather": ((7,), (5, 7), (2, 3, 33)),
    "layer_norm": ((7,), (5, 7), (2, 3, 7)), "batch_norm_train": ((33, 3), (4, 3), (4, 3, 5, 2)),
    "batch_norm_eval": ((33, 3), (4, 3), (4, 3, 5, 2)), "cat": ((3,), (5, 7), (2, 3, 33)),
}

_PLAIN = {"weight": None, "bias": None}
CASES = {
    "cast": ({"dtype": float32}, {"dtype": int32}, {"dtype": bool_}, {"dtype": float16}, {"dtype": bfloat16}),
    "full_like": ({"fill_value": 2},), "clamp": ({"min": 0, "max": 2}, {"min": 1}, {"max": 0}),
    "permute": ({"dims": (2, 0, 1)}, {"dims": (0, -1, 1)}), "expand": ({"size": (3, 5)}, {"size": (3, -1)}),
    "index_select": ({"dim": 0}, {"dim": -1}), "gather": ({"dim": 0}, {"dim": -1}),
    "layer_norm": ({"normalized_shape": (7,)}, {"normalized_shape": (7,), "bias": None},
                   {"normalized_shape": (7,), **_PLAIN}),
    "batch_norm_train": ({}, _PLAIN), "batch_norm_eval": ({}, _PLAIN), "cat": ({}, {"dim": -1}),
}


def samples(operation):
    """samples(rng, shape) of the op, or None."""
    return type(operation).samples or SAMPLES.get(operation.name)


def shapes(operation):
    """The operand shapes to try, or None where any will do."""
    return getattr(operation, "shapes", None) or SHAPES.get(operation.name)


def cases(operation):
    """The attributes to try: one case without any where nothing is stated."""
    return getattr(operation, "cases", None) or CASES.get(operation.name, ({},))


def fits(attributes, shape):
    """True if the axes that a case names exist in `shape`."""
    axes = attributes.get("dim")
    rank = max(1, len(shape))
    return all(a is None or -rank <= a < rank for a in (axes if isinstance(axes, tuple) else (axes,)))
