"""What of the project is generated: stubs in the package, pages in docs/."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent


def texts():
    """Path -> text of every generated file."""
    from flambeau.tools import stubs
    return {PACKAGE / name: text for name, text in stubs.files().items()}


def different():
    """The texts of those files that are not as they would be generated."""
    return {path: text for path, text in texts().items()
            if not path.is_file() or path.read_text(encoding="utf-8") != text}
