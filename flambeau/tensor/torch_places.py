"""Where the storages of PyTorch's files go: `map_location`, places, byte orders, how files are mapped."""

from flambeau.base.errors import fail
from flambeau.types.device import Device, MissingDevice, as_device

_PACKAGES = []  # (priority, tagger, deserializer)
_SETTINGS = {"endianness": None, "mmap": None, "crc32": True, "skip_data": False}


class UnknownPlace(RuntimeError, ValueError):
    """A storage lies at a place whose name means nothing."""


def register_package(priority, tagger, deserializer):
    """Add a kind of place; those of a small `priority` are asked first.

    `tagger(storage)` names the place of a storage or returns None; `deserializer(storage, location)` brings a
    storage to a place or returns None.
    """
    _PACKAGES.append((priority, tagger, deserializer))
    _PACKAGES.sort(key=lambda row: row[0])


def location_tag(storage):
    """The name of the place of a storage, such as 'cpu'."""
    for _, tagger, _ in _PACKAGES:
        found = tagger(storage)
        if found is not None:
            return found
    return str(getattr(storage, "device", "cpu"))


def default_restore_location(storage, location):
    """The storage at the place `location`. MissingDevice (a RuntimeError) for a device that is not here."""
    for _, _, deserializer in _PACKAGES:
        found = deserializer(storage, location)
        if found is not None:
            return found
    location = str(location)
    if location == "cpu":
        return storage
    if location == "meta":
        return None
    try:
        name = Device(location).type
    except (RuntimeError, TypeError):
        fail(
            "load",
            "a storage lies at a place that is not known",
            repr(location),
            hint="map_location='cpu' brings it into this computer's memory",
            kind=UnknownPlace,
        )
    fail(
        "load",
        f"tensors of the file belong on the device {location}, and there is none here",
        location,
        "'cpu'",
        hint=f"torch.load(f, map_location='cpu') brings them here ({name} is not available, so "
        f"torch.{name}.is_available() is False)",
        kind=MissingDevice,
    )


def placed(storage, location, map_location):
    """The storage where `map_location` wants what was saved at `location`; None: without memory ('meta')."""
    if map_location is None:
        return default_restore_location(storage, location)
    if isinstance(map_location, dict):
        return default_restore_location(storage, map_location.get(location, location))
    if callable(map_location) and not isinstance(map_location, Device):
        moved = map_location(storage, location)
        return (
            default_restore_location(storage, location)
            if moved is None
            else getattr(moved, "_untyped_storage", moved)
        )
    wanted = map_location if isinstance(map_location, str) else str(as_device(map_location))
    return default_restore_location(storage, wanted)


def assumed_byte_order():
    """'little' or 'big' for files that do not say it; None: this machine's."""
    choice = _SETTINGS["endianness"]
    return {None: None, "NATIVE": None, "LITTLE": "little", "BIG": "big"}[getattr(choice, "name", choice)]


def mmap_is_private():
    """True if writing to a mapped tensor leaves the file as it is."""
    import mmap

    return _SETTINGS["mmap"] != mmap.MAP_SHARED


def setting(name):
    return _SETTINGS[name]


def set_setting(name, value):
    _SETTINGS[name] = value
