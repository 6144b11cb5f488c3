"""torch.jit: scripts and traces run the Python that they were made from.

`script` and `trace` give objects of PyTorch's form (ScriptModule, ScriptFunction) around the module or
function; calling them calls it. Control flow of a traced function stays control flow. There is no compiled
form to print or to
save: that is refused, with another way.
"""

from flambeau.torch import _absent, _mirror
from flambeau.torch.jit._marks import (Attribute, Final, _overload, _overload_method, annotate, export,
    ignore, interface,
                                       isinstance, script_method, unused)
from flambeau.torch.jit._objects import (CompilationUnit, Error, Future, RecursiveScriptModule,
    ScriptFunction, ScriptModule,
                                         TopLevelTracedModule, TracedModule, export_opnames, fork, freeze,
    is_scripting,
                                         is_tracing, load, optimize_for_inference, save, script,
    script_if_tracing,
                                         trace, trace_module, wait)
from flambeau.torch.jit._objects import TracerWarning, TracingCheckError, optimized_execution, strict_fusion

_fork, _wait = fork, wait
run_frozen_optimizations = optimize_for_inference

globals().update(_absent.nothing("enable_onednn_fusion", "set_fusion_strategy", "set_module"),
                 **_absent.answered(False, "onednn_fusion_enabled"))

__getattr__, __dir__ = _mirror.mirror(__name__)
