"""What `flambeau show` prints: every form that a script's kernels take, at one stage of the compiler.

The script runs with `pipeline.watch` switched on, which sees a form when it is made, whether its object code comes from
the cache or not. Each kernel is shown once. Titles are comments of the language below them, so a graph or a kernel can be
cut out and parsed again.
"""

import contextlib
import os
import runpy
import sys

from flambeau.compiler import jit, llvm, pipeline
from flambeau.ir import graph_text, loops_text
from flambeau.ops import plans
from flambeau.ops.spec import REGISTRY

_WHY = {stage.name: stage.why for stage in (*pipeline.GRAPH_STAGES, *pipeline.LOOP_STAGES)}


def show(script, stage):
    """Run the file `script` and return its kernels at `stage` as text: 'graph', 'loops', 'llvm' or 'asm'.

    What the script itself prints goes to stderr. If it fails, what was made until then is printed and the error
    passes on; SystemExit ends the script only. KeyError for another stage.
    """
    viewer = VIEWERS[stage]()
    try:
        with viewer.watching(), contextlib.redirect_stdout(sys.stderr):
            _run_as_main(script)
    except SystemExit:
        pass
    except BaseException:
        print(viewer.text())
        raise
    return viewer.text()


class Viewer:
    """Collects titled texts. `see` is told of every form; each text is kept once."""

    comment = "#"

    def __init__(self):
        self.parts, self.seen, self.last = [], set(), None

    def see(self, name, form):
        raise NotImplementedError

    def text(self):
        return "\n\n".join(self.parts)

    def add(self, title, text):
        self.parts.append(f"{self.comment} {title}\n{text.rstrip()}")

    def start(self, what, name, text):
        """Add the first form of a graph or kernel. If it was shown already nothing is, `follow` included."""
        self.last = None if text in self.seen else text
        if self.last is not None:
            self.seen.add(text)
            self.add(f"{what} {len(self.seen)}: {name}", text)

    def follow(self, name, text):
        """Add what a stage made of the form before, if it changed it."""
        if self.last is not None and text != self.last:
            self.last = text
            self.add(f"after {name}: {_WHY[name]}", text)

    @contextlib.contextmanager
    def watching(self):
        """Show what is compiled inside the block. Plans made before are forgotten, so they are made again."""
        for operation in REGISTRY.values():
            operation.native.clear()
        compiler = plans.compiler()
        plans.install(_Announcing(compiler))
        try:
            with pipeline.watch(self.see):
                yield self
        finally:
            plans.install(compiler)


class GraphViewer(Viewer):
    """Graphs as traced, what the graph stages change, and which nodes share a kernel."""

    def see(self, name, form):
        if name == "graph":
            self.start("graph", form.name, graph_text.show(form))
        elif name == "fusion" and self.last is not None:
            self._fusion(form)
        elif any(name == stage.name for stage in pipeline.GRAPH_STAGES):
            self.follow(name, graph_text.show(form))

    def _fusion(self, fusion):
        lines = []
        for group in fusion.groups:
            made = [*(node.outputs[0] for node in group.reductions),
                    *(v for v in group.stores if v.name not in fusion.group_of)]
            names = ", ".join(f"{v.name} ({fusion.producer[v.name].op})" for v in made)
            sizes = ", ".join(map(str, group.shape))
            lines.append(f"rows of [{sizes}] along axes {group.axes}: {names}")
            if group.why:
                lines.append(f"    why: {group.why}")
        for finish in fusion.finishes.values():
            names = ", ".join(f"{n.outputs[0].name} ({n.op})" for n in (finish.node, *finish.behind))
            lines += [f"product with what is behind it: {names}", f"    why: {finish.why}"]
        if lines:
            self.parts.append("\n".join(f"# {line}" for line in ("what shares a kernel", *lines)))


class LoopsViewer(Viewer):
    """Kernels as lowered, and after each of the loop stages."""

    def see(self, name, form):
        if name == "loops":
            self.start("kernel", form.name, loops_text.show(form))
        elif any(name == stage.name for stage in pipeline.LOOP_STAGES):
            self.follow(name, loops_text.show(form))


class LlvmViewer(Viewer):
    """Kernels as LLVM text, before LLVM's own passes."""

    comment = ";"

    def see(self, name, form):
        if name == "kernel":
            self.start("kernel", form.name, self.translate(llvm.emit(form)))

    def translate(self, text):
        return text


class AssemblyViewer(LlvmViewer):
    """Kernels as this machine's assembly."""

    comment = "#"

    def translate(self, text):
        return jit.assembly(text)


VIEWERS = {"graph": GraphViewer, "loops": LoopsViewer, "llvm": LlvmViewer, "asm": AssemblyViewer}


class _Announcing:
    """The compiler, telling the watchers of elementwise graphs too: those go to a kernel without the graph stages."""

    def __init__(self, compiler):
        self.plan, self.differentiate, self._pointwise = compiler.plan, compiler.differentiate, compiler.pointwise

    def pointwise(self, signature, graph):
        pipeline.show("graph", graph)
        return self._pointwise(signature, graph)


def _run_as_main(script):
    """Run a file as Python does: as __main__, with its own argv and its folder first on the path."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
