"""Plans found again: a program that starts anew skips the planning of graphs that were planned before.

A plan is numbers (registers, loads, size arithmetic, buffers, launches) and kernels, which the cache of objects has.
Both together are kept as JSON, in the same cache and in the pack, under a hash of what planning reads: the graph
without its source lines, the operands' dtypes, shapes and layouts, the target, and the sources of the compiler and of
the ops. On a hit no fusion runs, no template is filled, and no Loops text is written to look a kernel up.

Not kept: plans that call Python functions (Opaque ops), and whatever is made while somebody watches the pipeline.
"""

import functools
import hashlib
import json
import pathlib

from flambeau.base.cache import default_cache
from flambeau.compiler import objects, pipeline
from flambeau.compiler import target as targets
from flambeau.ir import graph_text
from flambeau.runtime import _core

NEST, POINTWISE, HOST = range(3)        # kinds of steps, as in recipe.py
_PARTS = ("n_inputs", "registers", "loads", "checks", "code", "buffers", "outputs", "in_codes", "random")
_MADE = {}              # key -> JSON of this process's plans (how the pack is made)


@functools.cache
def planning_fingerprint():
    """A hash of the code that turns graphs into plans."""
    from flambeau.base.source import PACKAGE_FOLDER
    digest = hashlib.sha256(objects.source_fingerprint().encode())
    for path in sorted(pathlib.Path(PACKAGE_FOLDER, "ops").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def text_of(graph):
    """The lines of a graph, without the program's; TypeError where an attribute has no printed form."""
    lines = [", ".join(map(graph_text.show_value, graph.inputs))]
    for node in graph.nodes:
        lines.append(f"{', '.join(map(graph_text.show_value, node.outputs))} = {graph_text.show_call(node)}")
    lines.append(", ".join(map(graph_text.show_operand, graph.outputs)))
    return lines


def key_of(signature, graph):
    """The name of the plan of a prepared graph for a signature; None where it cannot be told by a text."""
    try:
        lines = text_of(graph)
    except TypeError:
        return None
    lines += [f"{o.dtype.name} {o.shape} {o.layout} {o.number}" for o in signature.operands]
    lines += [str(signature.constraints), str(signature.sizes)]
    return objects.object_key("\n".join(("plan", planning_fingerprint(), *lines)), targets.current())


def described(recipe):
    """What `keep` needs of a recipe before its kernels are built: None where a step calls Python."""
    steps = []
    for kind, target, operands, params, extent, grain in recipe.steps:
        if kind == HOST:
            return None
        what = objects.unlowered_key(target) + " " + target.name if kind == NEST else graph_text.show(target.spec["graph"])
        steps.append((kind, what, operands, params, extent, grain))
    return steps


def keep(key, spec, steps, tunable):
    """Keep a plan: `spec` is the native Plan's, `steps` are from `described`; tunable: it has choices to measure."""
    kept = {name: spec[name] for name in _PARTS} | {"steps": steps, "tunable": tunable}
    data = json.dumps(kept, separators=(",", ":")).encode()
    _MADE[key] = data
    default_cache().put(key, data)


def made():
    """A copy of the plans that this process made or found: key -> JSON."""
    return dict(_MADE)


def find(key, signature, family, kernels_again):
    """(the Plan under `key`, whether it has choices to measure), or (None, False).

    family(graph): the PointwisePlan of an elementwise graph; kernels_again(): number of a step -> its Kernel, for
    one whose object is gone or was never made.
    """
    for data in _kept_under(key):
        try:
            kept = json.loads(data)
            steps = [_step(row, family) for row in kept["steps"]]
            spec = {name: kept[name] for name in _PARTS} | {"steps": steps, "signature": signature}
            plan, tunable = _core.Plan(spec | {"attrs": signature.attrs}), kept["tunable"]
        except (ValueError, TypeError, LookupError, AttributeError):
            continue        # damaged
        names = [row[1] for row in kept["steps"]]
        plan.pending = functools.partial(_addresses, names, kernels_again)
        _MADE[key] = data
        return plan, tunable
    return None, False


def _step(row, family):
    """A launch, without its kernel."""
    kind, what, operands, params, extent, grain = row
    return kind, family(graph_text.parse(what)) if kind == POINTWISE else 0, operands, params, extent, grain


def _addresses(names, kernels_again, numbers):
    """The addresses of some steps' kernels: from a cache, or built."""
    try:
        return [objects.load_known(*names[number].split(" ")) for number in numbers]
    except LookupError:
        kernels = kernels_again()
        return pipeline.build_kernels([kernels[number] for number in numbers])


def elementwise_kernel(graph, forms, make):
    """The address of an elementwise graph's kernel for the strides and options `forms`; `make` gives it as Loops."""
    if pipeline.is_watched():
        return pipeline.build_kernel(make())
    try:
        text = "\n".join(("elementwise", planning_fingerprint(), *text_of(graph), str(forms)))
    except TypeError:
        return pipeline.build_kernel(make())
    key = objects.object_key(text, targets.current())
    for data in _kept_under(key):
        try:
            name, _, function = data.decode().partition(" ")
            address = objects.load_known(name, function)
            _MADE[key] = data
            return address
        except (ValueError, LookupError):
            continue
    kernel = make()
    address = pipeline.build_kernel(kernel)
    _MADE[key] = f"{objects.unlowered_key(kernel)} {kernel.name}".encode()
    default_cache().put(key, _MADE[key])
    return address


def _kept_under(key):
    """What the cache and the packs have under a key."""
    for get in objects.places():
        data = get(key)
        if data:
            yield data


def later(make):
    """A function that stands for the one that `make` gives, which is called at the first use."""
    found = []

    def call(operands):
        if not found:
            found.append(make())
        return found[0](operands)
    return call
