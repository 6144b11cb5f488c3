"""torch.onnx: programs import it and ask `is_in_onnx_export`; there is no export (yet)."""

from flambeau.torch._mirror import UnsupportedError


def is_in_onnx_export():
    """False."""
    return False


def export(model, args=(), f=None, **kwargs):
    """Refused: models are not written as ONNX yet."""
    raise UnsupportedError("[torch.onnx] models are not exported as ONNX (yet)\n"
                           "  hint: save the state_dict with torch.save and export with a PyTorch of your own")
