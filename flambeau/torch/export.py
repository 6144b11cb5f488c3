"""torch.export: whole programs as graphs are refused as long as programs are not captured."""

from flambeau.torch import _compiled, _mirror

_WAY_OUT = "save the weights with torch.save(model.state_dict(), path), or the module itself"

globals().update({name: _compiled.refused(f"torch.export.{name}", _WAY_OUT) for name in (
    "export", "export_for_training", "draft_export", "save", "load", "unflatten", "register_dataclass", "Dim",
    "dims",
    "default_decompositions")})

__getattr__, __dir__ = _mirror.mirror(__name__)
