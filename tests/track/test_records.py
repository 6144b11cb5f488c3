"""Records and messages: checksums, what is cut off, numbers of every kind."""

import random
import struct

import pytest

from flambeau.track.messages import decode, encode, varint
from flambeau.track.records import crc32c, masked, read_records, record


def slow_crc(data):
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def test_checksums_of_the_standard():
    assert crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43  # RFC 3720, B.4
    assert crc32c(bytes(range(32))) == 0x46DD794E and crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("length", [1, 255, 8191, 8192, 8193, 9001, 12345])
def test_long_data_have_the_same_checksum(length):
    data = random.Random(length).randbytes(length)
    assert crc32c(data) == slow_crc(data)


def test_records_are_read_up_to_where_the_file_ends(tmp_path):
    whole = record(b"one") + record(b"") + record(b"three" * 3000)
    path = tmp_path / "events"
    path.write_bytes(whole)
    assert list(read_records(path)) == [b"one", b"", b"three" * 3000]
    for missing in (1, 4, 5, 14999, 15003, 15005):
        path.write_bytes(whole[:-missing])
        assert list(read_records(path)) == [b"one", b""]


def test_damage_is_seen(tmp_path):
    path = tmp_path / "events"
    for place in (0, 8, 12, 15):
        damaged = bytearray(record(b"one"))
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="checksum"):
            list(read_records(path))


def test_the_record_by_hand():
    assert record(b"ab") == (
        struct.pack("<Q", 2)
        + struct.pack("<I", masked(struct.pack("<Q", 2)))
        + b"ab"
        + struct.pack("<I", masked(b"ab"))
    )


def test_varints():
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]
    assert varint(-1) == b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize(
    "message, name",
    [
        ({"step": -5, "wall_time": 1.25}, "Event"),
        ({"step": 2**62, "graph_def": b"\0\1"}, "Event"),
        ({"min": -1.5, "bucket_limit": [0.5, float("inf")], "bucket": [1.0, 2.0]}, "Histogram"),
        ({"value": [{"tag": "ä/b", "simple_value": 0.0}, {"tag": "c", "simple_value": -2.5}]}, "Summary"),
        (
            {
                "tensor_shape": {"dim": [{"size": 3}, {"size": 0}]},
                "int64_val": [-1, 5],
                "string_val": [b"", b"x"],
            },
            "TensorProto",
        ),
    ],
)
def test_messages_come_back(message, name):
    assert decode(name, encode(name, message)) == message


def test_fields_of_the_wire_by_hand():
    assert encode("Value", {"tag": "a", "simple_value": 1.0}) == b"\x0a\x01a\x15\x00\x00\x80\x3f"
    assert encode("Value", {"tag": "a", "simple_value": 1e300}) == b"\x0a\x01a\x15\x00\x00\x80\x7f"
    assert encode("Dim", {"size": None, "name": "n"}) == b"\x12\x01n"
    assert encode("Summary", b"raw") == b"raw"
    assert decode("Dim", b"\x18\x07\x08\x05") == {"size": 5}  # an unknown field is passed over


@pytest.mark.parametrize("data", [b"\x08", b"\x0a\x05ab", b"\x09\0\0", b"\x0b\x01"])
def test_broken_messages(data):
    with pytest.raises(ValueError):
        decode("Event", data)
