"""Names directly under `torch` that stand in `torch.jit` too, and the readers of files behind it."""

from flambeau.torch.jit import CompilationUnit, Future, ScriptFunction, ScriptModule

__all__ = ["CompilationUnit", "Future", "PyTorchFileReader", "PyTorchFileWriter", "ScriptFunction", "ScriptModule"]


class PyTorchFileReader:
    """Refused: `torch.load` reads the files."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"[torch] {type(self).__name__} is not supported by Flambeau\n"
                                  "  hint: use torch.load and torch.save, or zipfile")


class PyTorchFileWriter(PyTorchFileReader):
    """Refused: `torch.save` writes the files."""
