"""`python -m flambeau.tools`: write every generated file of the project; `--check` names those that
differ."""

import argparse
import sys

from flambeau.tools import generated


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m flambeau.tools", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a file differs")
    options = parser.parse_args(arguments)
    different = generated.different()
    for path, text in different.items():
        print(f"{'differs' if options.check else 'wrote'}: {path}")
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if options.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
