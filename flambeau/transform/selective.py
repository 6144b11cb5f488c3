"""Checkpoints that keep the results of chosen ops: what costs much to compute is kept, the rest runs again."""

import enum
from contextlib import contextmanager

from flambeau.ops.interpose import Interposer
from flambeau.ops.spec import bind
from flambeau.runtime._core import Tensor
from flambeau.tensor import graph

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What a policy says about one call of an op: keep its result, or compute it again. MUST and PREFER are the same here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """Tells a policy whether it is asked in the second pass (`is_recompute`)."""

    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


class _Keeping(Interposer):
    """The first pass: results that the policy wants are kept in order, with what their calls saved for the backward pass."""

    def __init__(self, policy, kept):
        self.policy, self.kept = policy, kept

    def handle(self, operation, args, kwargs):
        if not self.policy(SelectiveCheckpointContext(is_recompute=False), operation, args, kwargs):
            return bind(operation, args, kwargs)
        saved = []
        pack, unpack = graph._stack()[-1] if graph._stack() else (lambda tensor: tensor, lambda tensor: tensor)
        with graph.saved_tensors_hooks(lambda tensor: (saved.append(tensor), pack(tensor))[1], unpack):
            result = bind(operation, args, kwargs)
        places = [_place_of(tensor, args, kwargs, result) for tensor in saved]
        detached = tuple(r.detach() for r in result) if isinstance(result, tuple) else result.detach()
        recorded = any(r.requires_grad for r in (result if isinstance(result, tuple) else (result,)))
        self.kept.setdefault(operation.name, []).append(None if None in places else (detached, places, recorded))
        return result


class _Reusing(Interposer):
    """The second pass: kept results stand in for the calls that made them; what those saved is handed on as they did."""

    def __init__(self, policy, kept):
        self.policy, self.kept, self.next = policy, kept, {}

    def handle(self, operation, args, kwargs):
        if not self.policy(SelectiveCheckpointContext(is_recompute=True), operation, args, kwargs):
            return bind(operation, args, kwargs)
        number = self.next.get(operation.name, 0)
        self.next[operation.name] = number + 1
        kept = self.kept.get(operation.name, [])
        if number >= len(kept):
            raise RuntimeError(f"[{operation.name}] encountered during backward, but not found in storage: the function did "
                               "not call it as often in the first pass")
        if kept[number] is None:
            return bind(operation, args, kwargs)
        result, places, recorded = kept[number]
        for place in places:
            graph._stack()[-1][0](_at(place, args, kwargs, result))
        made = [r.detach().requires_grad_(recorded and r.dtype.kind in "fc")
                for r in (result if isinstance(result, tuple) else (result,))]
        return operation.pack(made) if isinstance(result, tuple) else made[0]


def _place_of(tensor, args, kwargs, result):
    """Which operand or result a saved tensor is: (table, index), or None."""
    tables = {"args": args, "kwargs": tuple(kwargs.values()), "result": result if isinstance(result, tuple) else (result,)}
    for name, values in tables.items():
        for index, value in enumerate(values):
            if isinstance(value, Tensor) and value.data_ptr() == tensor.data_ptr() and value.shape == tensor.shape:
                return name, index
    return None


def _at(place, args, kwargs, result):
    name, index = place
    return {"args": args, "kwargs": tuple(kwargs.values()),
            "result": result if isinstance(result, tuple) else (result,)}[name][index].detach()


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Two context managers for `checkpoint(..., context_fn=...)`: the results of chosen ops are kept.

    Args:
        policy_fn_or_list: policy(context, function, *args, **kwargs) -> CheckpointPolicy (or a bool: keep it), or a list
            of the functions (fl.matmul, ...) whose results are kept.
    """
    policy = _policy_of(policy_fn_or_list)
    kept = {}

    @contextmanager
    def second():
        with _Reusing(policy, kept):
            yield

    return _Keeping(policy, kept), second()


def _policy_of(given):
    if callable(given):
        def policy(context, operation, args, kwargs):
            answer = given(context, operation.function, *args, **kwargs)
            return answer in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE) \
                if isinstance(answer, CheckpointPolicy) else bool(answer)
        return policy
    chosen = set(map(_name, given))
    return lambda context, operation, args, kwargs: operation.name in chosen


def _name(function):
    return function if isinstance(function, str) else getattr(function, "__name__", str(function))
