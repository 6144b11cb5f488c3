"""torch._inductor: there is no such compiler here. Its settings can be set and have no effect."""

from flambeau.torch import _compiled, _mirror
from flambeau.torch._inductor import config

globals().update({name: _compiled.refused(f"torch._inductor.{name}")
                  for name in ("compile", "aot_compile", "aoti_compile_and_package", "aoti_load_package",
                      "cudagraph_mark_step_begin")})


def list_mode_options(mode=None, dynamic=None):
    """{}: a mode sets nothing."""
    return {}


def list_options():
    """The names of the settings."""
    return sorted(config.get_config_copy())


__getattr__, __dir__ = _mirror.mirror(__name__)
