"""What PyTorch and torchvision have and Flambeau lacks: the error, its message, and the reason where there is one."""

_QUANTIZED = "there are no quantized tensors; bfloat16 and float16 make models smaller, too"
_CAPTURED = "programs are not captured yet"
_PIPES = ("a data pipe is an iterator over samples; subclass torch.utils.data.IterableDataset and write __iter__ "
          "as a generator, or Dataset with __getitem__")
_REASONS = {
    "torch.fx": f"{_CAPTURED}; hooks of modules see what passes through them",
    "torch.package": f"{_CAPTURED}; torch.save keeps weights and modules",
    "torch.utils.mobile_optimizer": _CAPTURED,
    **dict.fromkeys(("torch.utils.data.datapipes", "torch.utils.data.IterDataPipe", "torch.utils.data.MapDataPipe",
                     "torch.utils.data.DFIterDataPipe"), _PIPES),
    "torch.utils.bottleneck": "torch.profiler and torch.utils.benchmark are there",
    **dict.fromkeys(("torch.ao", "torch.quantization", "torch.nn.quantized", "torch.nn.quantizable",
                     "torch.nn.intrinsic", "torch.nn.qat", "torch.quantize_per_tensor",
                     "torch.quantize_per_channel", "torch.quantize_per_tensor_dynamic"), _QUANTIZED),
}


class UnsupportedError(AttributeError, NotImplementedError):
    """A name that PyTorch has and Flambeau lacks; `hasattr` and `getattr`'s default work as usual."""


def give_reasons(package, reasons):
    """Say why names of `package` ('torchvision.models') are not there: name -> reason."""
    _REASONS.update((f"{package}.{name}", reason) for name, reason in reasons.items())


def reason(path):
    """Why the dotted name `path`, or what it lies in, is not there; '' if nobody said.

    >>> reason("torch.quantization.observer")
    'there are no quantized tensors; bfloat16 and float16 make models smaller, too'
    """
    while path and path not in _REASONS:
        path = path.rpartition(".")[0]
    return _REASONS.get(path, "")


def nearest(name, known):
    """The public name among `known` that `name` may be a slip of, or ''.

    >>> nearest("Adem", ["Adam", "SGD"])
    'Adam'
    """
    import difflib

    near = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], n=1, cutoff=0.7)
    return near[0] if near else ""


def unsupported(path, name, known):
    """The message for `name` of the module shown as `path`, which has the names `known`."""
    text = f"[{path}] {path}.{name} is not supported by Flambeau (yet)"
    if why := reason(f"{path}.{name}"):
        return f"{text}: {why}"
    near = nearest(name, known)
    return f"{text}\n  hint: " + (f"the nearest name that is supported: {path}.{near}" if near
                                  else f"dir({path}) lists what is")


def no_module(path):
    """The error of importing the module `path`, such as 'torch.fx'."""
    why = reason(path)
    text = f"No module named {path!r} in Flambeau's facade of {path.partition('.')[0]} (yet)"
    return ModuleNotFoundError(f"{text}: {why}" if why else text, name=path)
