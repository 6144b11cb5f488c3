"""python run_page.py PAGE.md: run the code of a page as its reader would, in one session; exit status 1 if it errs.

Blocks with a prompt (>>>) must give the output they show; `...` stands for anything and runs of white space are equal.
A block that starts with `@op` is taken as the end of flambeau/ops/mathematics.py. Other blocks are prose.
"""

import doctest
import importlib
import re
import sys
from pathlib import Path

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def add_op(source):
    """Run a class as if it stood in flambeau/ops/mathematics.py."""
    module = importlib.import_module("flambeau.ops.mathematics")
    if "flambeau.tensor" in sys.modules:
        raise RuntimeError("an op must be declared before the tensor's methods are attached")
    exec(compile(source, module.__file__, "exec"), vars(module))


def examples(path):
    """The page's prompts with what they should print, as one doctest."""
    text, found = path.read_text(encoding="utf-8"), []
    for block in FENCE.finditer(text):
        if block[1].startswith("@op\n"):
            add_op(block[1])
        for example in doctest.DocTestParser().get_examples(block[1]) if ">>>" in block[1] else ():
            example.lineno += text.count("\n", 0, block.start(1))
            found.append(example)
    return doctest.DocTest(found, {}, path.name, str(path), 0, text)


if __name__ == "__main__":
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    sys.exit(1 if runner.run(examples(Path(sys.argv[1]))).failed else 0)
