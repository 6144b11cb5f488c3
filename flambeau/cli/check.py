"""`flambeau check SCRIPT...`: which APIs of PyTorch and torchvision a program uses, and which are supported.

The program is read, not run. Modules that it imports from its own folder are read too.
"""

import os

from flambeau.base.text import table
from flambeau.cli import complain


def run(options):
    from flambeau.cli.usage import files_of, read_program

    problems = [path for path in options.scripts if not os.path.exists(path)]
    if problems:
        return complain(f"cannot read {problems[0]}: no such file")
    try:
        uses = read_program(files_of(options.scripts))
    except SyntaxError as error:
        return complain(f"{error.filename}:{error.lineno}: {error.msg}")
    names, methods, guesses = uses.names(), uses.methods(), uses.guesses()
    sections = [("names", names), ("methods and attributes of tensors", methods)]
    missing = sum(not use.supported for _, found in sections for use in found)
    for title, found in sections:
        if found:
            print(f"{title}\n{rows(found)}\n")
    if guesses:
        print("perhaps missing: attributes that PyTorch's tensors have, of something that may not be a tensor\n"
              f"{rows(guesses)}\n")
    total = len(names) + len(methods)
    print(f"{total - missing} of {total} supported" + (f", {missing} missing" if missing else ""))
    return 1 if missing else 0


def rows(found):
    """A table of uses, what is missing first."""
    ordered = sorted(found, key=lambda use: (use.supported, use.name))
    return table([(use.name, "yes" if use.supported else "NO", len(use.places), use.places[0],
                   use.note) for use in ordered],
                 ("API", "supported", "uses", "first", ""), "llrll")
