"""torch.__future__: switches of what `module.to` does to parameters.

Here `.to` always writes into the parameters that are there, so the switches are kept and change nothing else.
"""

_switches = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value):
    """Ask for new parameters on conversion."""
    _switches["overwrite"] = value


def get_overwrite_module_params_on_conversion():
    """What was asked for."""
    return _switches["overwrite"]


def set_swap_module_params_on_conversion(value):
    """Ask for `swap_tensors` on conversion."""
    _switches["swap"] = value


def get_swap_module_params_on_conversion():
    """What was asked for."""
    return _switches["swap"]
