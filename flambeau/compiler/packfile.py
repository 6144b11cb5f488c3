"""The kernel pack as a file: objects by key, read without llvmlite.

Layout: magic, SHA-256 of the rest, length of the index (u64), index (JSON: key -> [offset, length]), objects.
"""

import hashlib
import json
import os
import struct

MAGIC = b"FLPACK01"
FOLDER = os.path.join(os.path.dirname(__file__), "packed")
NAME = "kernels.pack"


class PackFile:
    """Objects by key. A damaged or missing file is an empty pack."""

    def __init__(self, path):
        self.index, self.data = {}, b""
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            return
        rest = content[40:]
        if content[:8] != MAGIC or hashlib.sha256(rest).digest() != content[8:40]:
            return
        size = struct.unpack_from("<Q", rest)[0]
        self.index, self.data = json.loads(rest[8:8 + size]), rest[8 + size:]

    @classmethod
    def installed(cls):
        """The pack beside this file."""
        return cls(os.path.join(FOLDER, NAME))

    def get(self, key):
        """The object under `key`, or None."""
        if key not in self.index:
            return None
        offset, length = self.index[key]
        return self.data[offset:offset + length]

    def __len__(self):
        return len(self.index)


def write_pack(folder, objects):
    """Write `objects` (key -> bytes) as the pack in `folder`; returns its path."""
    from flambeau.base.cache import atomic_write
    index, parts, offset = {}, [], 0
    for key in sorted(objects):
        index[key] = [offset, len(objects[key])]
        parts.append(objects[key])
        offset += len(objects[key])
    head = json.dumps(index).encode()
    rest = struct.pack("<Q", len(head)) + head + b"".join(parts)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, NAME)
    atomic_write(path, lambda file: file.write(MAGIC + hashlib.sha256(rest).digest() + rest))
    return path
