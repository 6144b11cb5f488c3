"""What of the project is generated: stubs in the package, pages in docs/."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
NAMES = ROOT / "docs" / "data" / "pytorch_names.txt"


def texts():
    """Path -> text of every generated file."""
    from flambeau.tools import coverage, op_pages, stubs

    found = {PACKAGE / name: text for name, text in stubs.files().items()}
    found[ROOT / "docs" / "ops.md"] = op_pages.page()
    found[ROOT / "docs" / "coverage.md"] = coverage.page(NAMES)
    return found


def different():
    """The texts of those files that are not as they would be generated."""
    return {
        path: text
        for path, text in texts().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
