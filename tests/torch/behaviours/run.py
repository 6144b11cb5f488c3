"""Run every program of a page and print {title: what it printed} as JSON: with PyTorch, or under `flambeau
run`."""

import contextlib
import io
import json
import re
import sys
import traceback
import warnings

BLOCK = re.compile(
    r"^## (?P<title>[^\n]+)\n"
    r"```python(?P<kind>[^\n]*)\n(?P<source>.*?)^```\n"
    r"(?:```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


def programs(page):
    """[(title, kind, source, output)] of a page's text."""
    return [tuple(found.group("title", "kind", "source", "output")) for found in BLOCK.finditer(page)]


def printed(source, title):
    """What a program prints, ending in its exception if it dies."""
    scope = {"__name__": "__main__"}
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, f"<{title}>", "exec"), scope)
    except BaseException:
        out.write(traceback.format_exc())
    return out.getvalue()


if __name__ == "__main__":
    with open(sys.argv[1]) as page:
        text = page.read()
    json.dump(
        {title: printed(source, title) for title, kind, source, _ in programs(text) if not kind.strip()},
        sys.stdout,
    )
