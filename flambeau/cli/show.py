"""`flambeau show SCRIPT --stage STAGE`: a script's kernels at one stage of the compiler."""

import os

from flambeau.cli import complain


def run(options):
    if not os.path.isfile(options.script):
        return complain(f"cannot read {options.script}: no such file")
    from flambeau.compiler import viewer

    text = viewer.show(options.script, options.stage)
    if text:
        print(text)
    return 0
