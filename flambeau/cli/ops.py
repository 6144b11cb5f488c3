"""`flambeau ops [PATTERN]`: the matrix op x consumer, from the registry."""

import fnmatch
import sys

from flambeau.base.text import table

DIM, BOLD, PLAIN = "\033[2m", "\033[1m", "\033[0m"


def run(options):
    import flambeau.tensor  # noqa: F401 - gives the ops their methods
    from flambeau.cli import complain
    from flambeau.cli.ops_matrix import COLUMNS, is_public, opaque_share, row
    from flambeau.ops.spec import REGISTRY

    kinds = sorted({operation.kind for operation in REGISTRY.values()})
    if options.kind and options.kind not in kinds:
        return complain(f"no kind is called {options.kind!r}: {', '.join(kinds)}")
    chosen = [
        operation
        for name, operation in sorted(REGISTRY.items())
        if (options.kind is None or operation.kind == options.kind) and matches(name, options.pattern)
    ]
    if not chosen:
        return complain(f"no op matches {options.pattern!r}")
    rows = [row(operation) for operation in chosen]
    if options.tsv:
        print("\n".join("\t".join(cells) for cells in [COLUMNS, *rows]))
        return 0
    lines = table(rows, COLUMNS).splitlines()
    print("\n".join(painted(lines) if sys.stdout.isatty() else lines))
    public = sum(map(is_public, chosen))
    opaque, total = opaque_share()
    print(
        f"\n{len(rows)} ops, {public} of them public; {opaque} of {total} public operations "
        f"({100 * opaque / total:.0f} %) are Opaque or rest on an Opaque op"
    )
    return 0


def matches(name, pattern):
    """A pattern with * or ? is matched as a whole, a plain word anywhere in the name."""
    if pattern is None:
        return True
    return fnmatch.fnmatch(name, pattern) if set(pattern) & set("*?[") else pattern in name


def painted(lines):
    """The header bold, cells without content dim."""
    import re

    body = [re.sub(r"\bno: \S+(?: \S+)*", lambda found: DIM + found[0] + PLAIN, line) for line in lines[2:]]
    return [BOLD + lines[0] + PLAIN, lines[1], *body]
