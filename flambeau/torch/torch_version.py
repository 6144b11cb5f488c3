"""torch.torch_version: a version that compares with texts and tuples."""

import re


def _key(version):
    """A sortable form of '2.13.0rc1+cpu', of a tuple (2, 13) or of one number; with a part after + it is
    later than without.
    """
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    public, _, local = str(version).lstrip("v").partition("+")
    parts, rank = [], (0, 0)
    for piece in public.replace(".dev", "dev").split("."):
        found = re.match(r"(\d+)(?:(dev|a|b|rc)(\d*))?", piece)
        if not found:
            raise ValueError(f"Invalid version: {version!r}")
        parts.append(int(found[1]))
        if found[2]:
            rank = (("dev", "a", "b", "rc").index(found[2]) - 4, int(found[3] or 0))
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts), rank, local


class TorchVersion(str):
    """A str; `<` and its kin compare versions.

    >>> TorchVersion("2.13.0+cpu") > "2.2", TorchVersion("2.13.0") >= (2, 13), TorchVersion("1.10") < "1.9"
    (True, True, False)
    """

    def _compared(self, other):
        try:
            return _key(self), _key(other)
        except ValueError:
            return str(self), str(other)

    def __lt__(self, other):
        mine, theirs = self._compared(other)
        return mine < theirs

    def __le__(self, other):
        mine, theirs = self._compared(other)
        return mine <= theirs

    def __gt__(self, other):
        mine, theirs = self._compared(other)
        return mine > theirs

    def __ge__(self, other):
        mine, theirs = self._compared(other)
        return mine >= theirs

    def __eq__(self, other):
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        if not isinstance(other, (str, tuple, list)):
            return NotImplemented
        mine, theirs = self._compared(other)
        return mine == theirs

    def __hash__(self):
        return str.__hash__(self)
