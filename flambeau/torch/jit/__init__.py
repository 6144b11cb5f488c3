"""torch.jit: scripts and traces run the Python that they were made from.

`script` and `trace` give objects of PyTorch's form (ScriptModule, ScriptFunction) around the module or function;
calling them calls it. Control flow of a traced function stays control flow. There is no compiled form: its graph is
the Python text, and saving it is refused, with another way.
"""

from flambeau.torch import _absent, _mirror
from flambeau.torch.jit._marks import (Attribute, Final, _overload, _overload_method, annotate, export, ignore, interface,
                                       isinstance, script_method, unused)
from flambeau.torch.jit._objects import (CompilationUnit, Error, Future, RecursiveScriptModule, ScriptFunction,
                                         ScriptModule, TopLevelTracedModule, TracedModule, TracerWarning,
                                         TracingCheckError, export_opnames, fork, freeze, is_scripting, is_tracing, load,
                                         optimize_for_inference, optimized_execution, save, script, script_if_tracing,
                                         strict_fusion, trace, trace_module, wait)

_fork, _wait = fork, wait
run_frozen_optimizations = optimize_for_inference

globals().update(_absent.nothing("enable_onednn_fusion", "set_fusion_strategy", "set_module"),
                 **_absent.answered(False, "onednn_fusion_enabled"))

__getattr__, __dir__ = _mirror.mirror(__name__)
