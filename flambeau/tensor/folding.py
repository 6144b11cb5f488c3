"""Long graphs made short for a picture: repeated stretches of ops and chains of ops become one group each."""

from dataclasses import dataclass

__all__ = ["Group", "fold"]

LEAST_PERIOD, LEAST_REPEATS = 2, 3


@dataclass(frozen=True)
class Group:
    """Rows of the graph that are drawn as one box."""

    rows: tuple
    title: str


def fold(rows, most):
    """Groups of the rows, in their order; at most about `most` of them.

    Repeats are folded first (the first round stays as it is), then chains in which each op feeds only the
    next, and if that is not enough, stretches of equal length. A group is a stretch of the forward order or a
    chain, so no two groups need each other.
    """
    groups = [Group((row,), row.op) for row in rows]
    if len(groups) > most:
        groups = _fold_repeats(groups)
    if len(groups) > most:
        groups = _fold_chains(groups)
    if len(groups) > most:
        groups = _fold_stretches(groups, most)
    return groups


def _joined(groups, title):
    return Group(tuple(row for group in groups for row in group.rows), title)


def _fold_repeats(groups):
    """The longest run of equal stretches of ops: its first stretch, then one group for the others; again on
    what is left."""
    names = [group.title for group in groups]
    start, period, count = _longest_repeat(names)
    if not period:
        return groups
    first, last = start + period, start + period * count
    title = f"{count - 1} more rounds of the {period} ops above"
    return (_fold_repeats(groups[:start]) + groups[start:first] + [_joined(groups[first:last], title)]
            + _fold_repeats(groups[last:]))


def _longest_repeat(names):
    """(start, period, count) of the stretch that repeats and folds most ops away; period 0: none."""
    best, best_gain = (0, 0, 0), 0
    for period in range(LEAST_PERIOD, len(names) // LEAST_REPEATS + 1):
        run = 0
        for i in range(period, len(names) + 1):
            if i < len(names) and names[i] == names[i - period]:
                run += 1
                continue
            count = run // period + 1
            gain = (count - 1) * period - period
            if count >= LEAST_REPEATS and gain > best_gain:
                best, best_gain = (i - run - period, period, count), gain
            run = 0
    return best


def _fold_chains(groups):
    """Groups that feed only the next one, which needs no other, join it."""
    place = {row.number: g for g, group in enumerate(groups) for row in group.rows}
    users, needs = [set() for _ in groups], [set() for _ in groups]
    for g, group in enumerate(groups):
        for row in group.rows:
            for source in row.inputs:
                if isinstance(source, int) and place[source] != g:
                    users[place[source]].add(g)
                    needs[g].add(place[source])
    chains = []
    for g, group in enumerate(groups):
        if chains and needs[g] == {g - 1} and users[g - 1] == {g}:
            chains[-1].append(group)
        else:
            chains.append([group])
    return [chain[0] if len(chain) == 1 else _joined(chain, _chain_title(chain)) for chain in chains]


def _chain_title(chain):
    names = [group.title for group in chain]
    if len(names) <= 4:
        return " · ".join(names)
    return f"{' · '.join(names[:2])} · … · {names[-1]} ({sum(len(group.rows) for group in chain)} ops)"


def _fold_stretches(groups, most):
    size = -(-len(groups) // max(most, 1))
    made = []
    for start in range(0, len(groups), size):
        part = groups[start:start + size]
        made.append(part[0] if len(part) == 1 else _joined(part, f"{sum(len(group.rows) for group in part)} "
                                                                 "ops"))
    return made
