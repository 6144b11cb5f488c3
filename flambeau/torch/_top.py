"""Names directly under `torch` that only the facade has."""

from flambeau.torch.amp import autocast

__all__ = ["autocast", "compiled_with_cxx11_abi", "get_device_module", "is_autocast_cpu_enabled", "is_autocast_enabled", "is_distributed",
           "is_vulkan_available"]


def is_autocast_enabled(device_type="cuda"):
    """False."""
    return False


def is_autocast_cpu_enabled():
    """False."""
    return False


def compiled_with_cxx11_abi():
    """True: there is no other."""
    return True


def is_vulkan_available():
    """False."""
    return False


def is_distributed(input):
    """False."""
    return False


def get_device_module(device=None):
    """`torch.cpu`, or the module of the device that is named."""
    import importlib

    kind = str(device or "cpu").partition(":")[0]
    return importlib.import_module(f"flambeau.torch.{kind}")
