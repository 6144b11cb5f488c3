"""hub: repositories in folders, files from URLs; nothing here needs a network."""

import hashlib
import io
import sys
import urllib.error

import pytest

import flambeau as fl
from flambeau import hub

CONF = '''
dependencies = ["os"]
from helper_of_the_repository import offset


def model(a, b=2):
    """Adds up."""
    return a + b + offset


_hidden = model
number = 3
'''


@pytest.fixture(autouse=True)
def folder_of_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("flambeau.hub.download._chosen", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path / "home" / "hub"


@pytest.fixture
def repository(folder_of_hub):
    folder = folder_of_hub / "owner_name_main"
    folder.mkdir(parents=True)
    (folder / "hubconf.py").write_text(CONF)
    (folder / "helper_of_the_repository.py").write_text("offset = 100\n")
    yield folder
    sys.modules.pop("helper_of_the_repository", None)


def test_local_folder(repository):
    assert hub.load(repository, "model", 1, source="local") == 103
    assert hub.load(str(repository), "model", 1, b=5, source="LOCAL") == 106
    assert str(repository) not in sys.path


def test_a_repository_in_the_cache(repository, capsys):
    assert hub.load("owner/name", "model", 1) == hub.load("owner/name:main", "model", 1, verbose=False) == 103
    assert capsys.readouterr().err == f"Using cache found in {repository}\n"
    assert hub.list("owner/name") == ["model"] and hub.help("owner/name", "model") == "Adds up."


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (("model", "bogus"), ValueError, 'Unknown source: "bogus"'),
        (("absent", "local"), RuntimeError, "Cannot find callable absent in hubconf\n  hint: it has model"),
        (("number", "local"), RuntimeError, "Cannot find callable number"),
        ((3, "local"), ValueError, "name of a function"),
    ],
)
def test_faults(repository, arguments, error, message):
    with pytest.raises(error, match=message):
        hub.load(repository, arguments[0], source=arguments[1])


def test_no_hubconf_and_missing_dependencies(tmp_path):
    with pytest.raises(FileNotFoundError, match="hubconf.py"):
        hub.load(tmp_path, "model", source="local")
    (tmp_path / "hubconf.py").write_text("dependencies = ['sys', 'no_such_package_1', 'no_such_package_2']")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package_1, no_such_package_2"):
        hub.load(tmp_path, "model", source="local")


def test_strangers_are_not_trusted_without_an_answer(folder_of_hub):
    with pytest.raises(RuntimeError, match="Untrusted repository: owner/name"):
        hub.load("owner/name", "model")
    with pytest.raises(ValueError, match="owner/name"):
        hub.load("name", "model")
    assert not folder_of_hub.exists()


def test_without_a_network_the_error_names_the_folder(folder_of_hub, monkeypatch):
    def refuse(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(urllib.error.URLError) as caught:
        hub.load("owner/name:v1", "model", trust_repo=True)
    assert str(folder_of_hub / "owner_name_v1") in caught.value.__notes__[0]
    assert (folder_of_hub / "trusted_list").read_text() == "owner_name\n"


def test_a_repository_is_fetched(folder_of_hub, monkeypatch, tmp_path):
    import zipfile

    archive = tmp_path / "repository.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("owner-name-1a2b/hubconf.py", "def model(): return 'fetched'")
        packed.writestr("owner-name-1a2b/inner/data.txt", "data")
    seen = []

    def serve(url, target, **options):
        seen.append(url)
        hub.download_url_to_file(archive.as_uri(), target)

    monkeypatch.setattr("flambeau.hub.repositories.download_url_to_file", serve)
    assert hub.load("owner/name", "model", trust_repo=True) == "fetched"
    assert seen == ["https://github.com/owner/name/zipball/main"]
    assert (folder_of_hub / "owner_name_main/inner/data.txt").read_text() == "data"
    assert hub.load("owner/name", "model", verbose=False) == "fetched" and len(seen) == 1


def test_download_checks_the_hash(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"weights" * 100000)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    hub.download_url_to_file(source.as_uri(), target, hash_prefix=digest[:8], progress=False)
    assert target.read_bytes() == source.read_bytes()
    with pytest.raises(RuntimeError, match=f'invalid hash value .expected "00000000", got "{digest}".'):
        hub.download_url_to_file(source.as_uri(), tmp_path / "c", hash_prefix="00000000")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_weights_from_a_url(tmp_path, folder_of_hub):
    path = tmp_path / "weights.pt"
    fl.save({"a": fl.arange(3)}, path)
    renamed = path.rename(tmp_path / f"w-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.pt")
    loaded = hub.load_state_dict_from_url(
        renamed.as_uri(), check_hash=True, progress=False, weights_only=True
    )
    assert loaded["a"].tolist() == [0, 1, 2] and (folder_of_hub / "checkpoints" / renamed.name).exists()
    url = renamed.as_uri()
    renamed.unlink()
    assert hub.load_state_dict_from_url(url, weights_only=True)["a"].tolist() == [0, 1, 2]
    with pytest.raises(urllib.error.URLError) as caught:
        hub.load_state_dict_from_url(url, file_name="other.pt")
    assert "other.pt" in caught.value.__notes__[0]


def test_folder(monkeypatch, folder_of_hub, tmp_path):
    assert hub.get_dir() == str(folder_of_hub)
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert hub.get_dir() == str(tmp_path / "caches/torch/hub")
    hub.set_dir(tmp_path)
    assert hub.get_dir() == str(tmp_path)
    assert hub.HASH_REGEX.search("resnet18-f37072fd.pth")[1] == "f37072fd"
