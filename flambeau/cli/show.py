"""`flambeau show SCRIPT --stage STAGE`: a script's kernels at one stage of the compiler.

`import torch` gives the script Flambeau, as under `flambeau run`; what it prints itself goes to stderr.
"""

import os

from flambeau.cli import complain


def run(options):
    if not os.path.isfile(options.script):
        return complain(f"cannot read {options.script}: no such file")
    from flambeau.cli.run import serve_facade
    from flambeau.compiler import viewer

    serve_facade()
    text = viewer.show(options.script, options.stage)
    if text:
        print(text)
    return 0
