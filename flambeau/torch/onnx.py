"""torch.onnx: writing ONNX files is refused as long as programs are not captured."""

from flambeau.torch import _absent, _compiled, _mirror

_WAY_OUT = "save the weights with torch.save(model.state_dict(), path)"

export, dynamo_export = (_compiled.refused(f"torch.onnx.{name}", _WAY_OUT)
    for name in ("export", "dynamo_export"))
globals().update(_absent.answered(False, "is_in_onnx_export", "is_onnxrt_backend_supported"))

__getattr__, __dir__ = _mirror.mirror(__name__)
