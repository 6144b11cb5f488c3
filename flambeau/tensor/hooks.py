"""The handle that removes a hook, for tensors, modules and optimizers alike."""

import itertools
import weakref

_identities = itertools.count()


class RemovableHandle:
    """Removes a hook from the table it was registered in; also usable in a `with` statement.

    Args:
        table: the ordered dict that holds the hook under `handle.id`.
        extra_dict: further dicts (or a list of them) with entries under the same id.
    """

    def __init__(self, table, *, extra_dict=()):
        self.id = next(number for number in _identities if number not in table)     # or an unpickled one's
        extra = [extra_dict] if isinstance(extra_dict, dict) else list(extra_dict)
        self._tables = [weakref.ref(each) for each in (table, *extra)]

    def remove(self):
        for reference in self._tables:
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()

    def __getstate__(self):
        return self.id, [reference() for reference in self._tables]

    def __setstate__(self, state):
        self.id, tables = state
        self._tables = [weakref.ref(table) for table in tables if table is not None]


def add_hook(table, hook, *, prepend=False, marks=()):
    """Put `hook` into the ordered dict `table`, its id into each dict of `marks`; return the handle.

    `marks` is a list of (dict, flag): the id enters the dict only where the flag is true.
    """
    handle = RemovableHandle(table, extra_dict=[marked for marked, _ in marks])
    table[handle.id] = hook
    for marked, flag in marks:
        if flag:
            marked[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle
