"""docs/coverage.md: how many of PyTorch's public names the facade has, namespace by namespace, and which it
lacks."""

import importlib
import re

INTRODUCTION = """# How much of PyTorch's API is there

Names that `flambeau run` serves, of the public names of PyTorch 2.13
([docs/data/pytorch_names.txt](data/pytorch_names.txt)): a name counts when the facade has it and it does
more than refuse. What the names do is compared elsewhere (`make test`, `make parity`). This page is made by
`python -m flambeau.tools` and compared in a test.

"""
# Why a name is missing: reason -> patterns of `namespace.name`, one of which it matches; the first reason
# counts. What matches none is simply not there yet.
WHY = {
    "no complex32 (conventions.md)": r"chalf",
    "quantization": r"""
        torch\.ao\. quant torch\.(Tensor\.)?(q_|int_repr|dequantize|qscheme) fbgemm moving_avg_obs
        choose_qparams
    """,
    "other devices": r"""
        cuda cudnn batch_norm_(backward|elemt|gather|stats|update) miopen mkldnn vulkan _ipu _xla xpu hpu gpu
        mps record_stream accelerator profiler_allow
    """,
    "mixed precision": r"autocast torch\.amp",
    "compilers, export, distributed": r"""
        torch\.(distributed|export|fx|jit|onnx|compiler|package|library|profiler)\b cond$
        while_loop \bcompile$ import_ir parse_ fork$ wait$ unify_type merge_type fallthrough classproperty
    """,
    "internal to PyTorch": r"""
        sym_ thread_safe_generator prepare_multiprocessing boolean_dispatch assert_int_or_pair torch_function
        functional\.Optional common_notes fft\.Tensor scaled_(grouped_)?mm grouped_mm debug_unwrap
        _DatasetKind init_num_threads enforce_grad_layout stale_capture stream_mismatch get_file_path
        slice_inverse Tensor\.index$
    """,
    "data pipes, removed upstream": r"""
        DataPipe datapipe DataChunk argument_validation runtime_validation non_deterministic
    """,
    "removed from PyTorch, or deprecated there": r"""
        (Tensor\.|torch\.)(eig|lstsq|symeig|solve|matrix_rank|resize|resize_as|reinforce)$ nn\.Container$
        (hs|ds|s)mm$ hspmm torch\.spmm saddmm sspaddmm NestedIOFunction
    """,
    "sparse, nested and masked storage": r"""
        sparse nested MaskedTensor masked_tensor _indices padded_tensor
        torch\.Tensor\.(values|coalesce|dense_dim) (values|indices)_copy
    """,
}
REASONS = [("|".join(patterns.split()), reason) for reason, patterns in WHY.items()]


def namespaces(path):
    """namespace -> names, from the list of PyTorch's names."""
    found = {}
    for block in re.split(r"^\[", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        namespace, _, names = block.partition("]")
        found[namespace] = names.split()
    return found


def candidate(namespace):
    """The object of the facade that stands for a namespace, or None."""
    if namespace == "torch.Tensor":
        return importlib.import_module("flambeau.torch").Tensor
    try:
        return importlib.import_module("flambeau." + namespace)
    except ImportError:
        return None


def has(owner, name):
    try:
        return hasattr(owner, name) and not getattr(getattr(owner, name), "only_refuses", False)
    except ImportError:  # a lazy module that the house does not have yet
        return False


def reason(namespace, name):
    """Why a name is missing, or None."""
    return next((why for pattern, why in REASONS if re.search(pattern, f"{namespace}.{name}")), None)


def because(namespace):
    """The reason that holds for a whole namespace, in brackets."""
    why = reason(namespace, "")
    return f" ({why})" if why else ""


def page(path):
    """The text of docs/coverage.md."""
    rows, lists, totals = [], [], [0, 0]
    for namespace, names in namespaces(path).items():  # in the order of the file
        owner = candidate(namespace)
        missing = [name for name in names if not has(owner, name)]
        present = len(names) - len(missing)
        rows.append(f"| {namespace} | {present} | {len(names)} | {100 * present // len(names)} % |")
        totals = [totals[0] + present, totals[1] + len(names)]
        if missing and present == 0:
            lists.append(f"**{namespace}.** Nothing yet{because(namespace)}.\n")
        elif missing:
            lists.append(missing_text(namespace, missing))
    rows.append(f"| **all** | **{totals[0]}** | **{totals[1]}** | **{100 * totals[0] // totals[1]} %** |")
    return (
        INTRODUCTION
        + "| namespace | implemented | total | |\n|---|---:|---:|---:|\n"
        + "\n".join(rows)
        + "\n\n## What is missing\n\n"
        + "\n".join(lists)
    )


def missing_text(namespace, missing):
    """The missing names of a namespace, grouped by the reason."""
    groups = {}
    for name in missing:
        groups.setdefault(reason(namespace, name) or "not there yet", []).append(name)
    parts = [f"{why}: {', '.join(f'`{name}`' for name in names)}" for why, names in sorted(groups.items())]
    return f"**{namespace}.** " + ". ".join(part[0].upper() + part[1:] for part in parts) + ".\n"
