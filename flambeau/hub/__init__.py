"""Models from repositories that describe themselves in a `hubconf.py`, and files of weights from URLs."""

from flambeau.hub.download import HASH_REGEX, download_url_to_file, get_dir, load_state_dict_from_url, set_dir
from flambeau.hub.repositories import help, list, load  # noqa: A004 - PyTorch's names

__all__ = [
    "HASH_REGEX",
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]
