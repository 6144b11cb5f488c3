"""The compiler: graphs to plans of native kernels. Importing it installs it for the ops."""

from flambeau.base.flags import flags
from flambeau.ops import plans
from flambeau.runtime import _core


class _Compiler:
    """What the ops ask of the compiler; each part is imported when first needed."""

    def pointwise(self, signature, graph):
        from flambeau.compiler.pointwise import pointwise
        return pointwise(signature, graph)

    def plan(self, signature, graph):
        from flambeau.compiler.plan import compile_plan
        return compile_plan(signature, graph)

    def differentiate(self, signature, grads, inputs, mask):
        from flambeau.compiler.differentiate import differentiate
        return differentiate(signature, grads, inputs, mask)


plans.install(_Compiler())
if flags.autotune:
    _core.set_autotune(True)
