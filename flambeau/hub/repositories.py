"""Repositories with a `hubconf.py`: a local folder, or one of GitHub's in the cache."""

import builtins
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile

from flambeau.hub.download import download_url_to_file, get_dir

__all__ = ["help", "list", "load"]

_BRANCHES = ("main", "master")


def load(
    repo_or_dir,
    model,
    *args,
    source="github",
    trust_repo=None,
    force_reload=False,
    verbose=True,
    skip_validation=False,
    **kwargs,
):
    """Call the function `model` of a repository's hubconf.py with `args` and `kwargs`: mostly it returns a
    Module.

    Args:
        repo_or_dir: a folder with `source="local"`; else "owner/name" or "owner/name:branch or tag" on
            GitHub.
        trust_repo: True: run its code; else you are asked before code comes from the network. What is in the
            cache already was trusted then.
        force_reload: fetch it again.
        verbose: say on stderr that the cache is used.

    Raises:
        FileNotFoundError: there is no such folder, or no hubconf.py in it.
        RuntimeError: no such function there; a package in its `dependencies` is missing.
        ValueError: an unknown source.
        URLError: not in the cache, and the network is not there.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text("def double(x): return 2 * x")
    ...     load(folder, "double", 21, source="local")
    42
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'[hub.load] Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = repo_or_dir
    if source == "github":
        folder = _cached(repo_or_dir, force_reload, trust_repo, verbose)
    return _entry(_hubconf(folder), model)(*args, **kwargs)


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True):  # noqa: A001
    """The names of what a GitHub repository ("owner/name:branch") offers: functions without a leading
    underscore."""
    module = _hubconf(_cached(github, force_reload, trust_repo, verbose))
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None):  # noqa: A001
    """The docstring of the function `model` of a GitHub repository."""
    return _entry(_hubconf(_cached(github, force_reload, trust_repo, True)), model).__doc__


def _hubconf(folder):
    """The module hubconf.py in `folder`, run with the folder first on the path."""
    folder = os.path.expanduser(os.fspath(folder))
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "a repository for hub.load has a file hubconf.py", path)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        missing = [name for name in getattr(module, "dependencies", ()) if not _is_there(name)]
    finally:
        sys.path.remove(folder)
    if missing:
        raise RuntimeError(
            f"[hub.load] Missing dependencies: {', '.join(missing)}\n  hint: pip install {' '.join(missing)}"
        )
    return module


def _is_there(name):
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _entry(module, name):
    if not isinstance(name, str):
        raise ValueError(f"[hub.load] Invalid input: model should be the name of a function: got {name!r}")
    found = getattr(module, name, None)
    if not callable(found):
        known = ", ".join(
            known for known in dir(module) if callable(getattr(module, known)) and not known.startswith("_")
        )
        raise RuntimeError(
            f"[hub.load] Cannot find callable {name} in hubconf\n  hint: it has {known or 'none'}"
        )
    return found


# ------------------------------------------------------------------------------ GitHub
def _cached(repository, force_reload, trust_repo, verbose):
    """The folder of a GitHub repository, fetched if it is not there."""
    match = re.fullmatch(r"([^/:]+)/([^/:]+)(?::(.+))?", repository)
    if match is None:
        raise ValueError(
            f"[hub] a GitHub repository is 'owner/name' or 'owner/name:branch': got {repository!r}\n"
            "  hint: source='local' for a folder"
        )
    owner, name, reference = match.groups()
    references = [reference] if reference else builtins.list(_BRANCHES)
    folders = [
        os.path.join(get_dir(), "_".join((owner, name, each.replace("/", "_")))) for each in references
    ]
    there = next((folder for folder in folders if os.path.isdir(folder)), None)
    if there is not None and not force_reload:
        if verbose:
            print(f"Using cache found in {there}", file=sys.stderr)
        return there
    _ask_trust(owner, name, trust_repo)
    error = None
    for each, folder in zip(references, folders):
        try:
            return _fetch(owner, name, each, folder)
        except OSError as problem:  # no such branch, or no network
            error = error or problem
    error.add_note(
        f"  hint: put the repository there yourself: {folders[0]}\n  or use source='local' with its folder"
    )
    raise error


def _ask_trust(owner, name, trust_repo):
    """Go on if the repository is trusted; note it for the next time."""
    path = os.path.join(get_dir(), "trusted_list")
    known = ()
    if os.path.exists(path):
        with open(path) as file:
            known = file.read().split()
    entry = f"{owner}_{name}"
    if entry in known:
        return
    if trust_repo is not True:
        question = (
            f"The repository {owner}/{name} is not on the list of trusted repositories, and its code would run "
            "here. Fetch it and put it on the list (y/N)? "
        )
        try:
            answer = input(question)
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            raise RuntimeError(f"[hub.load] Untrusted repository: {owner}/{name}\n  hint: trust_repo=True")
    os.makedirs(get_dir(), exist_ok=True)
    with open(path, "a") as file:
        file.write(entry + "\n")


def _fetch(owner, name, reference, folder):
    os.makedirs(get_dir(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=get_dir()) as scratch:
        archive = os.path.join(scratch, "repository.zip")
        download_url_to_file(
            f"https://github.com/{owner}/{name}/zipball/{reference}", archive, progress=False
        )
        with zipfile.ZipFile(archive) as packed:
            top = packed.infolist()[0].filename.partition("/")[0]
            packed.extractall(scratch)  # noqa: S202 - zipfile leaves out drives, roots and ..
        if os.path.isdir(folder):
            shutil.rmtree(folder)
        shutil.move(os.path.join(scratch, top), folder)
    return folder
