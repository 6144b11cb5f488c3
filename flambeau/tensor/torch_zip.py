"""The zip archives of PyTorch's files: records stored as they are, each at a multiple of 64 bytes.

Reading believes nothing: the directory, the headers before the records and the size of the file must agree,
records must not overlap, names must stay inside the archive, and a record must have the checksum that the
directory says. A record that was compressed is refused, so what is read never takes more memory than the file
is long.
"""

import io
import struct
import zlib

ALIGNMENT = 64
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_WIDE = 0xFFFFFFFF
_CHUNK = 1 << 20


class ArchiveError(ValueError):
    """An archive that is damaged or was made to mislead."""


class Record:
    """One entry: its name, where its bytes start and how many they are, checksum and way of storage."""

    __slots__ = ("crc", "header", "method", "name", "packed", "size", "start")

    def __init__(self, name, header, size, packed, crc, method):
        self.name, self.header, self.size, self.packed, self.crc, self.method = (
            name,
            header,
            size,
            packed,
            crc,
            method,
        )
        self.start = None


class Archive:
    """The records of an archive in a seekable stream, by their names without the first folder."""

    def __init__(self, stream):
        self.stream = stream
        self.origin = stream.tell()
        self.length = stream.seek(0, io.SEEK_END) - self.origin
        count, size, start = self._find_directory()
        self.records = self._read_directory(count, size, start)
        self._locate(start)
        self.root, self.by_name = self._strip()

    def __contains__(self, name):
        return name in self.by_name

    def names(self):
        return list(self.by_name)

    def read(self, name):
        """The bytes of a record."""
        out = bytearray(self._plain(name).size)
        self.read_into(name, memoryview(out))
        return bytes(out)

    def read_into(self, name, memory):
        """Fill `memory`, which is as long as the record, and check it."""
        record, done, crc = self._plain(name), 0, 0
        self.stream.seek(self.origin + record.start)
        while done < record.size:
            piece = memory[done : done + _CHUNK]
            count = self._read_piece(piece)
            if not count:
                raise ArchiveError(f"the record {name} is truncated: {done} of {record.size} bytes")
            crc, done = zlib.crc32(piece[:count], crc), done + count
        if record.crc not in (crc, 0):  # 0: PyTorch was told to compute none
            raise ArchiveError(
                f"the record {name} is damaged: its checksum is {crc:08x} instead of {record.crc:08x}"
            )

    def _read_piece(self, piece):
        """Read into `piece`; the number of bytes."""
        if hasattr(self.stream, "readinto"):
            return self.stream.readinto(piece)
        data = self.stream.read(piece.nbytes)
        piece[: len(data)] = data
        return len(data)

    def read_text(self, name, most):
        """A small record, compressed or not, of at most `most` bytes."""
        record = self._record(name)
        if record.size > most or record.packed > most:
            raise ArchiveError(
                f"the record {name} has {record.size} bytes, more than the {most} that it may have"
            )
        self.stream.seek(self.origin + record.start)
        data = self.stream.read(record.packed)
        try:
            data = zlib.decompressobj(-15).decompress(data, most) if record.method == 8 else data
        except zlib.error as error:
            raise ArchiveError(f"the record {name} is damaged: {error}") from None
        return data.decode("utf-8", "replace")

    def size(self, name):
        return self._plain(name).size

    def offset(self, name):
        """Where the bytes of a record start in the stream."""
        return self.origin + self._plain(name).start

    def _record(self, name):
        if name not in self.by_name:
            raise ArchiveError(f"the archive has no record {name!r}")
        return self.by_name[name]

    def _plain(self, name):
        record = self._record(name)
        if record.method != 0:
            raise ArchiveError(
                f"the record {name} is compressed; PyTorch stores its records as they are, and what is "
                "compressed could unpack to any size"
            )
        return record

    # ------------------------------------------------------------------ the directory at the end
    def _at(self, position, size):
        if position < 0 or size < 0 or position + size > self.length:
            raise ArchiveError(
                f"{size} bytes at byte {position} lie outside of the file of {self.length} bytes"
            )
        self.stream.seek(self.origin + position)
        data = self.stream.read(size)
        if len(data) != size:
            raise ArchiveError("the file is truncated")
        return data

    def _find_directory(self):
        """(entries, size, position) of the central directory."""
        tail_at = max(0, self.length - _END.size - 0xFFFF)
        tail = self._at(tail_at, self.length - tail_at)
        place = tail.rfind(b"PK\5\6")
        if place < 0 or len(tail) - place < _END.size:
            raise ArchiveError(
                "the file is truncated: it has no directory at its end, which a zip archive has"
            )
        _, disk, first, here, count, size, start, comment = _END.unpack_from(tail, place)
        if place + _END.size + comment != len(tail):
            raise ArchiveError("bytes follow the end of the archive")
        end = tail_at + place
        if end >= _LOCATOR.size and self._at(end - _LOCATOR.size, 4) == b"PK\6\7":
            end, disk, first, here, count, size, start = self._wide_end(end - _LOCATOR.size)
        if disk or first or here != count:
            raise ArchiveError("the archive is one of several parts")
        if start + size != end or count > size // _CENTRAL.size:
            raise ArchiveError(
                f"the directory ({count} entries, {size} bytes at byte {start}) is not where it should be"
            )
        return count, size, start

    def _wide_end(self, locator):
        _, _, place, _ = _LOCATOR.unpack(self._at(locator, _LOCATOR.size))
        mark, _, _, _, disk, first, here, count, size, start = _END64.unpack(self._at(place, _END64.size))
        if mark != b"PK\6\6" or place + _END64.size > locator:
            raise ArchiveError("the directory of the archive is damaged")
        return place, disk, first, here, count, size, start

    def _read_directory(self, count, size, start):
        data, position, found = self._at(start, size), 0, []
        for _ in range(count):
            if len(data) - position < _CENTRAL.size:
                raise ArchiveError("the directory of the archive is truncated")
            (
                mark,
                _,
                _,
                flags,
                method,
                _,
                _,
                crc,
                packed,
                plain,
                name_size,
                extra,
                comment,
                _,
                _,
                _,
                header,
            ) = _CENTRAL.unpack_from(data, position)
            position += _CENTRAL.size
            name, more = (
                data[position : position + name_size],
                data[position + name_size : position + name_size + extra],
            )
            position += name_size + extra + comment
            if mark != b"PK\1\2" or position > len(data):
                raise ArchiveError("the directory of the archive is damaged")
            plain, packed, header = _wide_sizes(more, plain, packed, header)
            if flags & 0x2041:
                raise ArchiveError("the archive is encrypted")
            if method == 0 and packed != plain:
                raise ArchiveError(f"a record of {plain} bytes is stored in {packed}")
            found.append(Record(_checked_name(name), header, plain, packed, crc, method))
        if position != len(data):
            raise ArchiveError("the directory of the archive is longer than its entries")
        return found

    def _locate(self, end):
        """Find where each record starts; none may overlap another or the directory."""
        border = 0
        for record in sorted(self.records, key=lambda record: record.header):
            if record.header < border:
                raise ArchiveError(f"the records overlap at {record.name}")
            mark, _, _, method, *_, name_size, extra = _LOCAL.unpack(self._at(record.header, _LOCAL.size))
            if mark != b"PK\3\4" or method != record.method:
                raise ArchiveError(f"the header of the record {record.name} is damaged")
            if self._at(record.header + _LOCAL.size, name_size) != record.name.encode():
                raise ArchiveError(f"the header of the record {record.name} has another name")
            record.start = record.header + _LOCAL.size + name_size + extra
            border = record.start + record.packed
            if border > end:
                raise ArchiveError(
                    f"the record {record.name} of {record.packed} bytes at byte {record.start} reaches "
                    f"over the {end} bytes in front of the directory"
                )

    def _strip(self):
        """(first folder, {name without it: record})"""
        if not self.records:
            raise ArchiveError("the archive is empty")
        root = self.records[0].name.partition("/")[0]
        found = {}
        for record in self.records:
            first, _, name = record.name.partition("/")
            if first != root or not name:
                raise ArchiveError(f"the record {record.name!r} is not in the folder {root!r} of the others")
            if name in found:
                raise ArchiveError(f"the record {record.name!r} is there twice")
            found[name] = record
        return root, found


def _checked_name(name):
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        raise ArchiveError(f"the name of a record is no text: {name!r}") from None
    if text.startswith("/") or "\\" in text or "\0" in text or ".." in text.split("/"):
        raise ArchiveError(f"the name of a record leads out of the archive: {text!r}")
    return text


def _wide_sizes(extra, plain, packed, header):
    """Sizes of 8 bytes, which stand in the extra field where those of 4 do not suffice."""
    position = 0
    while len(extra) - position >= 4:
        kind, size = struct.unpack_from("<2H", extra, position)
        field = extra[position + 4 : position + 4 + size]
        position += 4 + size
        if kind != 1:
            continue
        numbers = iter(struct.unpack(f"<{len(field) // 8}Q", field[: len(field) // 8 * 8]))
        plain, packed, header = (
            next(numbers, value) if value == _WIDE else value for value in (plain, packed, header)
        )
    return plain, packed, header


# ---------------------------------------------------------------------------------- writing
class ArchiveWriter:
    """Writes records one after the other, each aligned; `close` adds the directory."""

    def __init__(self, file, root, checksums=True):
        self.file, self.root, self.checksums = file, root, checksums
        self.position, self.directory = 0, []

    def add(self, name, data):
        """Write one record; `data` is anything that has bytes."""
        data = memoryview(data).cast("B")
        full, size = f"{self.root}/{name}".encode(), data.nbytes
        crc = zlib.crc32(data) if self.checksums else 0
        wide = struct.pack("<2H2Q", 1, 16, size, size) if size >= _WIDE else b""
        shown = _WIDE if wide else size
        start = self.position + _LOCAL.size + len(full) + len(wide)
        gap = -(start + 4) % ALIGNMENT
        extra = wide + b"FB" + struct.pack("<H", gap) + b"Z" * gap
        header = self.position
        self._write(
            _LOCAL.pack(
                b"PK\3\4", 45 if wide else 20, 0x800, 0, 0, 0x21, crc, shown, shown, len(full), len(extra)
            )
        )
        self._write(full + extra)
        for begin in range(0, size, _CHUNK):
            self._write(data[begin : begin + _CHUNK])
        self.directory.append((full, crc, size, header))

    def close(self):
        start = self.position
        for full, crc, size, header in self.directory:
            large = [number for number in (size, size, header) if number >= _WIDE]
            extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            size, header = min(size, _WIDE), min(header, _WIDE)
            self._write(
                _CENTRAL.pack(
                    b"PK\1\2",
                    45,
                    45 if large else 20,
                    0x800,
                    0,
                    0,
                    0x21,
                    crc,
                    size,
                    size,
                    len(full),
                    len(extra),
                    0,
                    0,
                    0,
                    0,
                    header,
                )
                + full
                + extra
            )
        count, size, end = len(self.directory), self.position - start, self.position
        if count >= 0xFFFF or start + size >= _WIDE:
            self._write(_END64.pack(b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, size, start))
            self._write(_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        self._write(
            _END.pack(
                b"PK\5\6",
                0,
                0,
                min(count, 0xFFFF),
                min(count, 0xFFFF),
                min(size, _WIDE),
                min(start, _WIDE),
                0,
            )
        )

    def _write(self, data):
        self.file.write(data)
        self.position += len(data)
