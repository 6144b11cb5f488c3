"""Tensors that are alive: who holds them, which line made them, what is left after a block, why memory ran
out."""

import gc
import math
import os
from dataclasses import dataclass

from flambeau.base.source import show_source, source_line, user_source
from flambeau.base.text import human_bytes, table
from flambeau.runtime import _core
from flambeau.tensor import holders
from flambeau.tensor.explain import saved_by, shape_text

__all__ = ["LeakError", "Live", "leak_check", "live_tensors", "record_lines", "set_limit",
           "set_per_process_memory_fraction"]

LISTED = 10         # tensors in the message of an allocation that failed


class LeakError(RuntimeError):
    """Tensors that were made in a block are alive after it."""


@dataclass(frozen=True)
class Live:
    """Memory of a live tensor and its views.

    nbytes: its size. shape, dtype: of the largest tensor on it; None if only the graph holds it. source:
    (file, line) that made it, or None where neither memory nor a graph was recorded. names: how the program reaches it.
    graph: names of the ops that keep it for a backward pass. behind: a tensor that this graph belongs to.
    """

    nbytes: int
    shape: tuple
    dtype: object
    source: tuple
    names: tuple
    graph: tuple
    behind: str = ""

    @property
    def line(self):
        """'train.py:12', or ''."""
        return show_source(self.source)

    @property
    def held_by(self):
        """One line on who refers to it."""
        parts = list(self.names)
        if self.graph:
            more = f" and {len(self.graph) - 2} more" if len(self.graph) > 2 else ""
            behind = f" behind {self.behind}" if self.behind else ""
            parts.append(f"the graph{behind} ({', '.join(self.graph[:2])}{more})")
        return "; ".join(parts) or "nothing that the garbage collector can see"


class record_lines:      # noqa: N801 - used like the modes
    """Inside, new tensors note the line that made them, for `live_tensors`, `leak_check` and errors of
    allocation. Results that a backward pass leads to have their line anyway.

    >>> with fl.memory.record_lines():
    ...     x = fl.zeros(1000)
    >>> [live.line != "" for live in fl.memory.live_tensors() if live.nbytes == 4000 and "x" in live.names]
    [True]
    """

    def __enter__(self):
        self.start = _core.memory_trace(1)
        return self

    def __exit__(self, *error):
        _core.memory_trace(-1)


def live_tensors(count=None):
    """The live tensors' memory as `Live` records, the largest first (the `count` largest).

    >>> x = fl.zeros(100_000)
    >>> any(live.nbytes == 400_000 for live in fl.memory.live_tensors())
    True
    """
    return _survey(count=count)


def _survey(only=None, count=None):
    """Records of live memory; `only`: of these addresses."""
    frames = list(holders.walk_frames())
    tensors, nodes, containers = holders.tensors_in_containers(frames)
    by_address = {}
    for tensor in tensors.values():
        if tensor.storage_ is not None and (only is None or tensor.storage_.address in only):
            by_address.setdefault(tensor.storage_.address, []).append(tensor)
    kept = _kept_by_graphs(tensors, nodes)
    traced = _core.memory_traced()
    sizes = {at: max(t.storage_.nbytes_() for t in found) for at, found in by_address.items()}
    sizes.update({at: part.size for at, part in kept.items() if only is None or at in only})
    sizes.update({at: size for at, (_, size, _) in traced.items() if only is None or at in only})
    chosen = sorted(sizes, key=lambda at: -sizes[at])[:count]
    wanted = {id(t) for at in chosen for t in by_address.get(at, ())} | {kept[at].root for at in chosen
                                                                         if at in kept}
    names = holders.names_of(wanted, frames)
    unnamed = [holder for at in chosen for t in by_address.get(at, ()) if id(t) not in names
               for holder in containers.get(id(t), ())]
    ours = holders.internal(unnamed) if unnamed else ()
    for tensor, found in containers.items():
        containers[tensor] = [holder for holder in found if id(holder) not in ours]
    return [_record(by_address.get(at, []), kept.get(at), sizes[at], traced.get(at), names, containers)
            for at in chosen]


def _record(found, kept, size, traced, names, containers):
    """The record of one memory: `found` are the tensors on it."""
    largest = max(found, key=lambda t: t.nbytes, default=None)
    known = [name for t in found for name in names.get(id(t), ())]
    if not known:
        known = [f"a {type(holder).__name__}" for t in found for holder in containers.get(id(t), ())][:3]
    form = (tuple(largest.shape), largest.dtype) if largest is not None else kept.form if kept else None
    ops = tuple(kept.ops) if kept else ()
    if kept and not ops and not known:          # a leaf that nothing but the graph refers to
        ops = ("a leaf",)
    source = traced and traced[2] or next(
        (t.grad_fn.recorded_at for t in found if isinstance(t.grad_fn, _core.Node)), None)
    return Live(size, form and form[0], form and form[1], source, tuple(dict.fromkeys(known)),
                ops, names.get(kept.root, [""])[0] if ops else "")


class _Kept:
    """Memory that graphs keep: its bytes, the ops, the id of a tensor at the graph's end, the shape and dtype
    if they show."""

    def __init__(self, size, root, form):
        self.size, self.root, self.form, self.ops = size, root, form, []


def _kept_by_graphs(tensors, nodes):
    """{address: _Kept} of what live graphs keep for backward passes."""
    todo = [(t.grad_fn, i) for i, t in tensors.items() if t.grad_fn is not None]
    todo += [(node, 0) for node in nodes.values()]
    # losses are reached last: popped first
    todo.sort(key=lambda start: -len(tensors[start[1]].shape) if start[1] else 1)
    seen, kept = set(), {}
    while todo:
        node, root = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        edges = [after for after, _ in node.next_functions if after is not None]
        inputs = [after for after in edges if isinstance(after, _core.Node)]
        for at, size in saved_by(node).items():
            if at not in kept:
                kept[at] = _Kept(size, root, _form_of(size, [node, *inputs]))
            kept[at].ops.append(node.operation.name)
        for leaf in (edge.variable for edge in edges if not isinstance(edge, _core.Node)):
            if leaf.storage_ is not None and leaf.storage_.address not in kept:
                kept[leaf.storage_.address] = _Kept(leaf.storage_.nbytes_(), root,
                                                    (tuple(leaf.shape), leaf.dtype))
        todo += [(after, root) for after in inputs]
    return kept


def _form_of(size, nodes):
    """The (shape, dtype) of an output of these nodes that takes so many bytes."""
    for form in (form for node in nodes for form in node.output_forms() if form is not None):
        if ... not in form[0] and math.prod(form[0]) * form[1].itemsize == size:
            return form
    return None


def _rows(records):
    return table([(human_bytes(live.nbytes), "?" if live.shape is None else shape_text(live.shape),
                   "" if live.dtype is None else str(live.dtype).rpartition(".")[2], live.line, live.held_by)
                  for live in records], ("bytes", "shape", "dtype", "made at", "held by"), "rllll")


# ---------------------------------------------------------------------------------- leaks
class leak_check:        # noqa: N801
    """Afterwards `leaks` tells which tensors made inside are still alive, who refers to them and which line
    made them.

    Args:
        raises: True: leaving the block raises LeakError if there are any (AssertionError's place in a test).

    Attributes, after the block: `count`, `nbytes`, `leaks` (`Live` records, the largest first), `cycle_bytes`
    (memory that only the garbage collector freed: it hung in a cycle of references). `str()` is a table.

    >>> kept = []
    >>> def step():
    ...     loss = (fl.ones(1000, requires_grad=True) * 2).sum()
    ...     kept.append(loss)
    >>> with fl.memory.leak_check() as check:
    ...     step()
    >>> check.count, any("kept[0]" in leak.held_by for leak in check.leaks)
    (2, True)
    """

    def __init__(self, raises=False):
        self.raises, self.leaks, self.cycle_bytes = raises, [], 0

    def __enter__(self):
        self.start = _core.memory_trace(1)
        return self

    def __exit__(self, kind, error, trace):
        _core.memory_trace(-1)
        before = self._alive()
        gc.collect()
        after = self._alive()
        self.cycle_bytes = sum(before.values()) - sum(after.values())
        self.leaks = [live for live in _survey(set(after)) if live.names or live.graph] if after else []
        if self.raises and self.leaks and kind is None:
            raise LeakError(f"[leak_check] {self}")

    def _alive(self):
        return {at: size for at, (number, size, _) in _core.memory_traced().items() if number > self.start}

    @property
    def count(self):
        """How many tensors' memories are left."""
        return len(self.leaks)

    @property
    def nbytes(self):
        """Their bytes together."""
        return sum(leak.nbytes for leak in self.leaks)

    def __str__(self):
        cycles = ""
        if self.cycle_bytes:
            cycles = f"; {human_bytes(self.cycle_bytes)} hung in cycles until the garbage collector ran"
        if not self.leaks:
            return f"no tensor made in the block is alive after it{cycles}"
        lines = [f"{self.count} tensor{'s' * (self.count != 1)} made in the block "
                 f"{'are' if self.count != 1 else 'is'} alive after it, {human_bytes(self.nbytes)}{cycles}",
                 _rows(self.leaks[:40])]
        for source in list(dict.fromkeys(leak.source for leak in self.leaks if leak.source))[:5]:
            lines.append(f"  {show_source(source)}: {source_line(*source)}")
        return "\n".join(lines)

    __repr__ = __str__


# ---------------------------------------------------------------------------------- limits and failures
def set_limit(most):
    """Let tensors (with what is cached for reuse) take at most `most` bytes; None: no limit. Returns what it
    was.

    An allocation that would pass it raises MemoryError, as if the machine had no more.

    >>> _ = fl.memory.empty_cache()
    >>> before = fl.memory.set_limit(fl.memory.stats()["live_bytes"] + 2 ** 20)
    >>> try:
    ...     fl.zeros(1 << 20)
    ... except MemoryError as error:
    ...     print("out of memory" in str(error))
    True
    >>> _ = fl.memory.set_limit(before)
    """
    if most is not None and most <= 0:
        raise ValueError(f"[set_limit] the limit must be positive: got {most}\n  hint: None lifts it")
    return _core.memory_set_limit(int(most or 0)) or None


def set_per_process_memory_fraction(fraction, device=None):
    """Let tensors take at most this part (0 to 1) of the machine's memory."""
    if not 0 < fraction <= 1:
        raise ValueError("[set_per_process_memory_fraction] wanted a fraction above 0 and up to 1: got "
                         f"{fraction}")
    set_limit(int(fraction * machine_memory()))


def machine_memory():
    """Bytes of memory that this process may use: the machine's, or less where its group is limited."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):       # no group, or "max"
            pass
    return total


def verdict(wanted, live, graph, room, limited=False):
    """Why `wanted` bytes were not to be had: `live` bytes are in use, `graph` of them kept for backward
    passes, `room` is all that there is."""
    whose = "the limit" if limited else "this machine"
    if wanted > room:
        return (f"too big: {human_bytes(wanted)} for one tensor, {whose} allows {human_bytes(room)} in all: "
                "look at its shape (a missing reduction, a broadcast that makes an outer product)")
    if graph >= live / 2 and live + wanted > room / 2:
        return (f"kept by the graph: {human_bytes(graph)} of {human_bytes(live)} are saved for backward "
                "passes that have not run: use loss.item() for what is only logged, no_grad() for "
                "evaluation, checkpoint() for a deep model")
    if live + wanted <= room:
        return (f"fragmented: {human_bytes(room - live)} are not in use by tensors, but not in one piece or "
                "not this process's to take (other processes, ulimit -v); memory.empty_cache() gives back "
                "what is cached")
    return (f"full: tensors take {human_bytes(live)} of {human_bytes(room)}: free the largest of them, or "
            "take smaller batches")


def report_failure(wanted):
    """What the error of a failed allocation says besides: the largest live tensors and a verdict."""
    stats = _core.memory_stats()
    room = stats["limit_bytes"] or machine_memory()
    records = live_tensors()
    graph = sum(live.nbytes for live in records if live.graph and not _held_otherwise(live))
    lines = [f"  verdict: {verdict(wanted, stats['live_bytes'], graph, room, bool(stats['limit_bytes']))}"]
    if records:
        lines += [f"  the largest of {len(records)} live tensors:",
                  *("    " + line for line in _rows(records[:LISTED]).splitlines())]
        if not any(live.source for live in records[:LISTED]):
            lines.append("    (lines are known where the program runs inside `with memory.record_lines():`)")
    return "\n".join(lines)


def _held_otherwise(live):
    """True for parameters and the like: the graph saves them, but they stay without it too."""
    return any(not name.startswith("a ") for name in live.names)


_core.set_hook("memory_source", user_source)
