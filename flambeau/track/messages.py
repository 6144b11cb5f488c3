"""The messages in an event file, as plain dicts, to and from protocol buffers' wire format.

A message is a dict by field name; a repeated field is a list; a field that is None is left out; a message
that is bytes, or that has `SerializeToString`, is taken as encoded already. `FIELDS` is the whole schema:
what TensorBoard reads of it.

>>> event = {"step": 3, "summary": {"value": [{"tag": "loss", "simple_value": 0.5}]}}
>>> decode("Event", encode("Event", event)) == event
True
"""

import struct

__all__ = ["decode", "encode"]

# message -> its fields as "name number kind"; a kind is int (also bool and enum), float, double, string, bytes
# or a message; a star says that the field is repeated.
FIELDS = {
    "Event": "wall_time 1 double, step 2 int, file_version 3 string, graph_def 4 bytes, summary 5 Summary, "
    "session_log 7 SessionLog, tagged_run_metadata 8 TaggedRunMetadata, source_metadata 10 SourceMetadata",
    "SessionLog": "status 1 int, checkpoint_path 2 string, msg 3 string",
    "TaggedRunMetadata": "tag 1 string, run_metadata 2 bytes",
    "SourceMetadata": "writer 1 string",
    "Summary": "value 1 Value*",
    "Value": "tag 1 string, simple_value 2 float, image 4 Image, histo 5 Histogram, audio 6 Audio, "
    "node_name 7 string, tensor 8 TensorProto, metadata 9 Metadata",
    "Metadata": "plugin_data 1 PluginData, display_name 2 string, summary_description 3 string, "
    "data_class 4 int",
    "PluginData": "plugin_name 1 string, content 2 bytes",
    "Image": "height 1 int, width 2 int, colorspace 3 int, encoded_image_string 4 bytes",
    "Histogram": "min 1 double, max 2 double, num 3 double, sum 4 double, sum_squares 5 double, "
    "bucket_limit 6 double*, bucket 7 double*",
    "Audio": "sample_rate 1 float, num_channels 2 int, length_frames 3 int, encoded_audio_string 4 bytes, "
    "content_type 5 string",
    "TensorProto": "dtype 1 int, tensor_shape 2 Shape, tensor_content 4 bytes, float_val 5 float*, "
    "double_val 6 double*, int_val 7 int*, string_val 8 bytes*, int64_val 10 int*, bool_val 11 int*",
    "Shape": "dim 2 Dim*",
    "Dim": "size 1 int, name 2 string",
    # the graph of a model
    "GraphDef": "node 1 NodeDef*, versions 4 Versions",
    "NodeDef": "name 1 string, op 2 string, input 3 string*, device 4 string, attr 5 Attribute*",
    "Attribute": "key 1 string, value 2 AttributeValue",
    "AttributeValue": "list 1 AttributeList, s 2 bytes, i 3 int, f 4 float, b 5 int, shape 7 Shape",
    "AttributeList": "shape 7 Shape*",
    "Versions": "producer 1 int",
    # hyperparameters
    "HParams": "version 1 int, experiment 2 Experiment, session_start_info 3 SessionStart, "
    "session_end_info 4 SessionEnd",
    "Experiment": "description 1 string, time_created_secs 3 double, hparam_infos 4 HParamInfo*, "
    "metric_infos 5 MetricInfo*",
    "HParamInfo": "name 1 string, type 4 int, domain_discrete 5 AnyList",
    "MetricInfo": "name 1 MetricName",
    "MetricName": "group 1 string, tag 2 string",
    "SessionStart": "hparams 1 HParam*, start_time_secs 5 double",
    "SessionEnd": "status 1 int, end_time_secs 2 double",
    "HParam": "key 1 string, value 2 Any",
    "Any": "number_value 2 double, string_value 3 string, bool_value 4 int",
    "AnyList": "values 1 Any*",
    # layouts of charts, precision-recall curves, meshes
    "Layout": "version 1 int, category 2 Category*",
    "Category": "title 1 string, chart 2 Chart*",
    "Chart": "title 1 string, multiline 2 Multiline, margin 3 Margin",
    "Multiline": "tag 1 string*",
    "Margin": "series 1 Series*",
    "Series": "value 1 string, lower 2 string, upper 3 string",
    "PrCurve": "version 1 int, num_thresholds 2 int",
    "Mesh": "version 1 int, name 2 string, content_type 3 int, json_config 5 string, shape 6 int*, "
    "components 7 int",
}
_FIXED = {"double": ("<d", 8, 1), "float": ("<f", 4, 5)}
_TABLES = {}


def _table(name):
    """Message name -> {field: (number, kind, repeated)}."""
    if name not in _TABLES:
        rows = [row.split() for row in FIELDS[name].split(", ")]
        _TABLES[name] = {
            field: (int(number), kind.rstrip("*"), kind.endswith("*")) for field, number, kind in rows
        }
    return _TABLES[name]


# ------------------------------------------------------------------------------ writing
def encode(name, message):
    """The bytes of a message: `name` is one of FIELDS."""
    if hasattr(message, "SerializeToString"):
        return message.SerializeToString()
    if isinstance(message, (bytes, bytearray)):
        return bytes(message)
    table, out = _table(name), bytearray()
    for field, value in message.items():
        if value is None:
            continue
        number, kind, repeated = table[field]
        if not repeated:
            out += _one(number, kind, value)
        elif kind == "int" or kind in _FIXED:  # numbers stand together, under one head
            packed = b"".join(map(varint, value)) if kind == "int" else _many(kind, value)
            out += varint(number << 3 | 2) + varint(len(packed)) + packed
        else:
            for each in value:
                out += _one(number, kind, each)
    return bytes(out)


def varint(value):
    """An integer in groups of seven bits, the lowest first; a negative one as 64 bits in two's complement.

    >>> varint(300)
    b'\\xac\\x02'
    """
    value = int(value) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _one(number, kind, value):
    if kind in _FIXED:
        form, _, wire = _FIXED[kind]
        return varint(number << 3 | wire) + _pack(form, value)
    if kind == "int":
        return varint(number << 3) + varint(value)
    if kind == "string" or isinstance(value, str):
        data = str(value).encode()
    else:
        data = bytes(value) if kind == "bytes" else encode(kind, value)
    return varint(number << 3 | 2) + varint(len(data)) + data


def _pack(form, value):
    try:
        return struct.pack(form, value)
    except OverflowError:  # beyond float32: infinite there
        return struct.pack(form, float("inf") if value > 0 else float("-inf"))


def _many(kind, values):
    values = list(values)
    return struct.pack(f"<{len(values)}{_FIXED[kind][0][1]}", *values)


# ------------------------------------------------------------------------------ reading
def decode(name, data):
    """The message in `data`: a dict of the fields that are there; unknown ones are passed over.

    Raises ValueError where the bytes end too early.
    """
    names = {number: (field, kind, repeated) for field, (number, kind, repeated) in _table(name).items()}
    found, at = {}, 0
    while at < len(data):
        head, at = _read_varint(data, at)
        raw, at = _read_raw(data, at, head & 7)
        if head >> 3 not in names:
            continue
        field, kind, repeated = names[head >> 3]
        values = _values(kind, raw, repeated)
        if repeated:
            found.setdefault(field, []).extend(values)
        else:
            found[field] = values[-1]
    return found


def _read_varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("a message ends in the middle of a number")
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def _read_raw(data, at, wire):
    """(an integer, or bytes, and the place behind it)."""
    if wire == 0:
        return _read_varint(data, at)
    if wire == 2:
        length, at = _read_varint(data, at)
    else:
        length = {1: 8, 5: 4}.get(wire)
        if length is None:
            raise ValueError(f"no field has the wire type {wire}")
    if at + length > len(data):
        raise ValueError("a message ends in the middle of a field")
    return bytes(data[at : at + length]), at + length


def _values(kind, raw, repeated):
    if kind == "int":
        numbers = [raw] if isinstance(raw, int) else []
        at = 0
        while not isinstance(raw, int) and at < len(raw):
            number, at = _read_varint(raw, at)
            numbers.append(number)
        return [number - (1 << 64) if number >> 63 else number for number in numbers]
    if kind in _FIXED:
        form, size, _ = _FIXED[kind]
        return list(struct.unpack(f"<{len(raw) // size}{form[1]}", raw))
    if kind == "string":
        return [raw.decode()]
    return [raw if kind == "bytes" else decode(kind, raw)]
