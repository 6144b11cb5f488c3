"""PyTorch's own operator test data (`torch.testing`'s OpInfos): values, dtypes, gradients, methods, in-place forms, errors."""

import contextlib
import types
import warnings

import known
import numpy
import pytest
import torch
from judge import differences, doubled
from torch.testing._internal.common_methods_invocations import op_db
from translate import Untranslatable, leaves, op_function, value

from flambeau import torch as facade

SAMPLES = 6
OTHER_DTYPES = (torch.float64, torch.int64, torch.bool, torch.complex64, torch.bfloat16)
SHARES = {"forward": 0.95, "gradient": 0.95, "variants": 0.95, "other dtypes": 0.9, "error inputs": 0.9}

warnings.filterwarnings("ignore")
TALLY = {}          # what is compared -> [held, compared]


def is_random(op, sample):
    """True if the test data sets a seed around the op and this sample draws."""
    names = getattr(getattr(op.op, "__code__", None), "co_names", ())
    return "wrapper_set_seed" in names and sample.kwargs.get("dropout_p", 1) != 0 and sample.kwargs.get("dropout", 1) != 0


def label(op):
    return op.name + ("/" + op.variant_test_name if op.variant_test_name else "")


def is_public(op):
    inside = type(op.op).__name__ in ("OpOverload", "OpOverloadPacket", "_JittedFunction")
    inside |= op.name.startswith(("_", "torch.", "ops.")) and not op.name.startswith("__")
    return not (inside or op.name in known.INSIDE)


OPS = {label(op): op for op in op_db if is_public(op)}


def samples_of(op, dtype, count, grad=False):
    torch.manual_seed(0)
    numpy.random.seed(0)
    with contextlib.suppress(Exception):
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
        step = max(1, -(-len(found) // count))
        return found[::step]
    return []


def attempt(function, args, kwargs):
    """(result, whether random numbers were drawn), or (None, None) where PyTorch itself refuses."""
    state = torch.get_rng_state()
    try:
        result = function(*args, **kwargs)
    except Exception:
        return None, None
    return result, not torch.equal(state, torch.get_rng_state())


def tally(what, held):
    row = TALLY.setdefault(what, [0, 0])
    row[0] += bool(held)
    row[1] += 1


def judged(name, what, found):
    """Fail on a difference that is not known, and on a known one that is gone."""
    reason = known.OPERATORS.get((name, what))
    if reason is None:
        tally(what, found is None)
        assert found is None, f"{name}, {what}: {found}"
    else:
        assert found is not None, f"{name}, {what} agrees now: take it off the list of known differences"


def ours(op, sample, what=op_function):
    """Our result for a sample, as (arguments, result)."""
    args, kwargs = value((sample.input, *sample.args)), value(sample.kwargs)
    return args, kwargs, what(op)(*args, **kwargs)


def first_difference(op, dtype, count):
    compared = 0
    for sample in samples_of(op, dtype, count):
        theirs, drawn = attempt(op.op, (sample.input, *sample.args), sample.kwargs)
        if drawn is None:
            continue
        try:
            _, _, result = ours(op, sample)
        except Untranslatable:
            continue
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", compared
        def exact(sample=sample):
            return op.op(*doubled((sample.input, *sample.args)), **doubled(sample.kwargs))
        shapes_only = drawn or is_random(op, sample) or op.name in known.UNDEFINED
        found = differences(result, theirs, exact, shapes_only, op.name in known.UP_TO_SIGN, op.name in known.TIES)
        compared += 1
        if found is not None:
            return found, compared
    return None, compared


@pytest.mark.parametrize("name", OPS)
def test_forward(name):
    op = OPS[name]
    dtypes = op.supported_dtypes("cpu")
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64) if d in dtypes), None)
    if dtype is None:
        pytest.skip("no dtype on the CPU")
    found, compared = first_difference(op, dtype, SAMPLES)
    if not compared and found is None:
        pytest.skip("PyTorch refuses every sample, or it is of PyTorch's alone")
    judged(name, "forward", found)


@pytest.mark.parametrize("name", OPS)
def test_other_dtypes(name):
    op = OPS[name]
    supported = op.supported_dtypes("cpu")
    found = None
    for dtype in OTHER_DTYPES:
        if dtype in supported and found is None:
            found, _ = first_difference(op, dtype, 2)
            found = None if found is None else f"{dtype}: {found}"
    judged(name, "other dtypes", found)


# ---------------------------------------------------------------------------------- gradients
def gradients(result, inputs, kind, backward, places=None):
    """Gradients of the inputs for weights that are the same on both sides; None where nothing can be differentiated.

    places: of the outputs that PyTorch differentiates; None: those that require gradients.
    """
    found = leaves(result, kind)
    places = differentiable(found, kind) if places is None else places
    outputs = [found[p] for p in places]
    if not outputs or not all(out.requires_grad for out in outputs):
        return None
    rng = numpy.random.default_rng(0)
    seeds = []
    for out in outputs:
        weights = rng.uniform(0.5, 1.5, tuple(out.shape))
        weights = weights + 1j * rng.uniform(0.5, 1.5, tuple(out.shape)) if "complex" in str(out.dtype) else weights
        seeds.append(backward(weights, out))
    inputs = [leaf for leaf in inputs if isinstance(leaf, kind) and leaf.requires_grad]
    grad = torch.autograd.grad if kind is torch.Tensor else facade.autograd.grad
    return grad(outputs, inputs, seeds, allow_unused=True)


def differentiable(found, kind):
    return [i for i, leaf in enumerate(found) if isinstance(leaf, kind) and leaf.requires_grad]


def their_seed(weights, out):
    return torch.as_tensor(weights).to(out.dtype)


def our_seed(weights, out):
    return facade.from_numpy(numpy.array(weights)).to(out.dtype)


def gradient_difference(op, sample):
    args = (sample.input, *sample.args)
    theirs, drawn = attempt(op.op, args, sample.kwargs)
    if drawn is None or drawn or is_random(op, sample):
        return None
    everything = leaves((args, sample.kwargs), torch.Tensor)
    try:
        right = gradients(theirs, everything, torch.Tensor, their_seed)
    except Exception:
        return None
    if right is None:
        return None
    our_args, our_kwargs, result = ours(op, sample)
    places = differentiable(leaves(theirs, torch.Tensor), torch.Tensor)
    got = gradients(result, leaves((our_args, our_kwargs), facade.Tensor), facade.Tensor, our_seed, places)
    if got is None:
        return "no result requires a gradient"

    def exact():
        wide_args, wide_kwargs = doubled(args), doubled(sample.kwargs)
        return gradients(op.op(*wide_args, **wide_kwargs), leaves((wide_args, wide_kwargs), torch.Tensor), torch.Tensor,
                         their_seed)
    pairs = [(g, r) for g, r in zip(got, right) if r is not None]       # None: PyTorch leaves this input out
    zeros = [facade.zeros(tuple(r.shape), dtype=value(r.dtype)) if g is None else g for g, r in pairs]
    wanted = [place for place, r in enumerate(right) if r is not None]
    return differences(zeros, [r for _, r in pairs], lambda: [exact()[place] for place in wanted])


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.supports_autograd and op.name not in known.UP_TO_SIGN])
def test_gradient(name):
    op = OPS[name]
    dtypes = op.supported_backward_dtypes("cpu")
    dtype = next((d for d in (torch.float32, torch.complex64) if d in dtypes), None)
    if dtype is None:
        pytest.skip("no gradient on the CPU")
    found = None
    for sample in samples_of(op, dtype, SAMPLES, grad=True):
        try:
            found = gradient_difference(op, sample)
        except Untranslatable:
            continue
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if found is not None:
            break
    judged(name, "gradient", found)


# ---------------------------------------------------------------------------------- methods, in-place forms, out=
def variants_of(op):
    if isinstance(op.op, types.FunctionType) or op.variant_test_name:
        return {}
    found = {}
    if op.method_variant is not None:
        found["method"] = (op.method_variant.__name__, False)
    if op.inplace_variant is not None:
        found["in-place"] = (op.inplace_variant.__name__, True)
    return found


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if variants_of(op)])
def test_variants(name):
    op, found = OPS[name], None
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if d in op.supported_dtypes("cpu")), None)
    for kind, (method, inplace) in variants_of(op).items():
        for sample in samples_of(op, dtype, 2) if dtype else ():
            if not isinstance(sample.input, torch.Tensor) or inplace and sample.broadcasts_input:
                continue
            clone = sample.input.clone()

            def exact(method=method, sample=sample):
                return getattr(torch.Tensor, method)(doubled(sample.input.clone()), *doubled(sample.args),
                                                     **doubled(sample.kwargs))
            theirs, drawn = attempt(getattr(torch.Tensor, method), (clone, *sample.args), sample.kwargs)
            if drawn is None:
                continue
            args, kwargs = value((sample.input, *sample.args)), value(sample.kwargs)
            target = args[0].clone() if inplace else args[0]
            try:
                result = getattr(target, method)(*args[1:], **kwargs)
                found = differences(result, theirs, exact, drawn or op.name in known.UNDEFINED,
                                    op.name in known.UP_TO_SIGN, op.name in known.TIES)
                if found is None and inplace and result is not target:
                    found = "the result is not the tensor itself"
            except Exception as error:
                found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            if found is not None:
                return judged(name, "variants", f"{kind}: {found}")
    judged(name, "variants", found)


# ---------------------------------------------------------------------------------- what must be refused
def test_error_inputs_are_refused():
    accepted, asked = [], 0
    for name, op in OPS.items():
        if op.error_inputs_func is None:
            continue
        with contextlib.suppress(Exception):
            for error in list(op.error_inputs("cpu")):
                sample = error.sample_input
                try:
                    args, kwargs = value((sample.input, *sample.args)), value(sample.kwargs)
                except Exception:
                    continue
                asked += 1
                try:
                    op_function(op)(*args, **kwargs)
                except Exception:
                    continue
                accepted.append(name)
    TALLY["error inputs"] = [asked - len(accepted), asked]
    assert len(accepted) <= (1 - SHARES["error inputs"]) * asked, f"{len(accepted)} of {asked} accepted: {accepted}"


def test_shares():
    """What this run compared, known differences left out, holds to the shares that are promised."""
    lines = [f"{what}: {held} of {count} ({held / count:.1%})" for what, (held, count) in TALLY.items() if count]
    print("\n".join(lines))
    for what, (held, count) in TALLY.items():
        assert held >= SHARES[what] * count, lines


