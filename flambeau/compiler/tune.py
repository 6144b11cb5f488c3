"""Autotuning: the schedule of a kernel by measured time instead of by the cost model.

A template that has a choice asks the planner for it: `planner.choose(FAMILY)` gives the family's default, or
what was chosen. A Family names only choices that leave the order of additions, and so the bits, as they are.
Plans stay symbolic in their sizes: any choice is right for any size, just not as quick.

    a plan meets new sizes while `_core.autotune()` is on    Plan.specialise (runtime, plan.pxi)
        for each node of it with a choice, a `Site`:
            the entry of its key in memory or on disk        Table
            else: the node alone, on memory of its own, once with each candidate    measure
        the same graph planned with these choices            Specialiser

What is kept: one file an entry in the folder of the object cache, by op, attributes, shapes, strides, dtypes,
processor, threads and the sources of the compiler.
"""

import time
from dataclasses import asdict, dataclass, replace

from flambeau.base.cache import Cache, default_folder
from flambeau.base.lazy import LazyModule
from flambeau.compiler import objects, pipeline
from flambeau.compiler import target as targets
from flambeau.ops import plans as op_plans
from flambeau.ops.spec import REGISTRY
from flambeau.runtime import _core
from flambeau.types.dim import Dim, evaluate

ctypes, json = LazyModule("ctypes"), LazyModule("json")

BUDGET = 0.05           # seconds that the runs of one site take, about,
SEARCH = 0.03           # so many of them to find the best; then the two best are compared with the default
LONG = 0.001            # seconds of a run from which on there is no need to warm up
ROUNDS = 8              # of the candidates, and then of the best ones and the default, at most
SLOWER = 1.25           # candidates this much behind the quickest are not run again
GAIN = 0.95             # the default stays unless a candidate takes less than this share of its time
MOST_SIZES = 4096       # combinations of sizes that a plan remembers


@dataclass(frozen=True)
class Family:
    """The choices of one kind of kernel: `default` is the cost model's, `candidates` the others, most
    promising first; all frozen dataclasses of one type, whose fields are ints."""

    name: str
    default: object
    candidates: tuple

    def read(self, fields):
        """The candidate with these fields (a dict of those that differ from the default), else None."""
        for candidate in (self.default, *self.candidates):
            if self.fields(candidate) == fields:
                return candidate
        return None

    def fields(self, candidate):
        """The fields in which a candidate differs from the default."""
        usual = asdict(self.default)
        return {name: value for name, value in asdict(candidate).items() if value != usual[name]}


@dataclass(frozen=True, eq=False)
class Site:
    """One choice in a plan: of which family, for which node, and the number of the choice in that node."""

    family: Family
    node: object
    operands: tuple         # (dtype, shape, strides) of each, sizes symbolic
    number: int

    def at(self, sizes):
        """The site for the values of the symbols, a dict."""
        def known(x):
            if isinstance(x, tuple):
                return tuple(map(known, x))
            return evaluate(x, sizes) if isinstance(x, Dim) else x
        node = replace(self.node, attrs=known(self.node.attrs))
        return replace(self, node=node, operands=known(self.operands))

    def is_measurable(self):
        """False if an operand is empty, or might be indices, for which not any numbers will do."""
        return all(0 not in shape and (dtype.kind == "f" or dtype.itemsize == 1)
                   for dtype, shape, _ in self.operands)

    def key(self):
        """What the entry of this site (`at` known sizes) is found by."""
        operands = ", ".join(f"{dtype.name} {list(shape)} {list(strides)}"
                             for dtype, shape, strides in self.operands)
        attrs = ", ".join(f"{name}={value}" for name, value in self.node.attrs)
        return f"{self.node.op}({operands}; {attrs}) {self.family.name} {self.number}"


# ---------------------------------------------------------------------------------- kept choices
class Table:
    """Entries by key, in memory and in a folder: dicts with op, shapes, family, choice, seconds, default
    (seconds with the default) and threads. What cannot be read counts as missing."""

    def __init__(self, folder):
        self.files, self.known = Cache(folder, ".tuned"), {}

    def get(self, key):
        if key not in self.known:
            entry = _parsed(self.files.get(_place(key)))
            if entry is None:
                return None
            self.known[key] = entry
        return self.known[key]

    def put(self, key, entry):
        self.known[key] = entry
        self.files.put(_place(key), json.dumps(entry).encode())

    def clear(self):
        """Forget everything, on disk too."""
        self.known.clear()
        self.files.clear()

    def entries(self):
        """All that is on disk, of any processor and version."""
        return [entry for entry in map(_parsed, self.files.values()) if entry is not None]


def _place(key):
    facts = targets.current().key, str(_core.get_num_threads()), objects.source_fingerprint(), key
    return "\0".join(facts)


def _parsed(data):
    try:
        entry = json.loads(data)
        float(entry["seconds"]), float(entry["default"]), dict(entry["choice"])
        (entry["op"], entry["threads"], *map(list, entry["shapes"]))
    except (TypeError, ValueError, KeyError):
        return None
    return entry


_TABLES = {}


def table():
    """The Table of this process's cache folder and number of threads."""
    place = default_folder(), _core.get_num_threads()
    if place not in _TABLES:
        _TABLES[place] = Table(place[0])
    return _TABLES[place]


def choose(site):
    """The choice for a site at known sizes: from the table, or measured now."""
    if not site.is_measurable():
        return site.family.default
    key = site.key()
    entry = table().get(key)
    choice = None if entry is None else site.family.read(entry["choice"])
    if choice is None:
        choice, seconds, usual = measure(site)
        table().put(key, {
            "op": site.node.op, "shapes": [list(shape) for _, shape, _ in site.operands],
            "family": site.family.name, "choice": site.family.fields(choice), "seconds": min(seconds, usual),
            "default": usual, "threads": _core.get_num_threads(), "processor": targets.current().key})
    return choice


# ---------------------------------------------------------------------------------- measuring
def measure(site):
    """(the quickest candidate, its seconds, the default's seconds) for a site at known sizes."""
    tensors, default = [_memory(*operand) for operand in site.operands], site.family.default
    runs = _Runs(site, tensors)
    runs.once(default)                      # touches the memory; not counted
    runs.times.clear()
    running = [default, *site.family.candidates]
    for number in range(ROUNDS):
        for candidate in running:
            if not runs.times or runs.spent < SEARCH:
                runs.once(candidate)
        enough = SLOWER * min(runs.times.values())
        if number:
            running = [candidate for candidate in running if runs.times.get(candidate, 0) <= enough]
    if len(runs.times) > 1:
        compare(runs, {default: None, **dict.fromkeys(sorted(runs.times, key=runs.times.get)[:2])})
    times = runs.times
    best = min(times, key=times.get)
    return (best if times[best] < GAIN * times[default] else default), times[best], times[default]


def compare(runs, finalists):
    """Time the finalists once more, in turn."""
    runs.times.clear()
    for number in range(ROUNDS):
        if number < 2 or runs.spent < BUDGET:
            for candidate in finalists:
                runs.once(candidate)


class _Runs:
    """Runs of the candidates of a site: the least seconds of each, and the seconds of all together."""

    def __init__(self, site, tensors):
        self.site, self.tensors, self.plans, self.times, self.spent = site, tensors, {}, {}, 0.0

    def once(self, candidate):
        """Two runs, as the first finds the caches as another candidate left them; before a candidate's first
        two one more, which is not counted. One where they are long."""
        plan, runs = self.plans.get(candidate), 2
        if plan is None:
            plan, runs = plan_of(self.site, self.tensors, candidate), 3
            self.plans[candidate] = plan
        for number in range(runs):
            seconds = seconds_of(plan, self.tensors)
            self.spent += seconds
            if number or seconds > LONG or runs == 2:
                self.times[candidate] = min(seconds, self.times.get(candidate, seconds))
            if seconds > LONG:
                break


def seconds_of(plan, tensors):
    """How long one run of a plan takes."""
    began = time.perf_counter()
    _core.execute(plan, tensors)
    return time.perf_counter() - began


def plan_of(site, tensors, candidate):
    """The plan of the site's node alone, with this candidate; its kernels are built."""
    from flambeau.compiler.plan import plan_graph
    operation = REGISTRY[site.node.op]
    values = op_plans.assemble(operation, tensors, dict(site.node.attrs))
    signature, graph = op_plans.signature_and_graph(operation, values, *operation.split(values))
    choices = (site.family.default,) * site.number + (candidate,)
    plan = plan_graph(signature, pipeline.prepare_graph(graph), choices)[0]
    _core.execute(plan, tensors)
    return plan


def _memory(dtype, shape, strides):
    """A tensor of small positive numbers."""
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    whole = _core.empty_strided((count,), None, dtype)
    ctypes.memset(whole.data_ptr(), 0x3c, count * dtype.itemsize)
    return _core.view_of(whole, shape, strides, 0)


# ---------------------------------------------------------------------------------- plans
class Specialiser:
    """What a plan with choices has as `specialise`: operands -> the plan with the choices for their sizes."""

    def __init__(self, plan, make, sites, sources):
        """make(choices): the plan with these; sources: name of a size -> (operand, 1 for a stride, axis)."""
        self.make, self.sites, self.sources = make, sites, sources
        self.plans = {tuple(site.family.default for site in sites): plan}
        self.known = {}             # sizes and threads -> plan

    def __call__(self, operands):
        values = tuple((operands[i].stride() if what else operands[i].shape)[axis]
                       for i, what, axis in self.sources.values())
        key = *values, _core.get_num_threads()
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= MOST_SIZES:
                self.known.clear()
            found = self.known[key] = self.plan(dict(zip(self.sources, values)))
        return found

    def plan(self, sizes):
        choices = tuple(choose(site.at(sizes)) for site in self.sites)
        if choices not in self.plans:
            self.plans[choices] = self.make(choices)
        return self.plans[choices]
