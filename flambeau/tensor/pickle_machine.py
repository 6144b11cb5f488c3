"""A machine for the opcodes of Python's pickle format that builds data and never calls what a file names.

`pickle` trusts its input: a file says which function to call with which arguments. This machine knows the
same opcodes but looks every name up through `rules`, which hands out only what it knows, and it calls, builds
and fills only through `rules` too:

    rules.find(module, name)            what a file's name stands for
    rules.call(what, args)              REDUCE: a new object of known makings
    rules.new(kind, args, kwargs)       NEWOBJ: an empty object
    rules.fill(object, state)           BUILD: give an object the machine made its state
    rules.extend, rules.set_items       more members of an object that is no plain list or dict

Every size is compared with the bytes that are there before memory is taken; keys that would take long to hash
and data nested deeper than a pickler can write are refused. Memory stays within a fixed multiple of the
file's size.
"""

import codecs
import io
import struct

from flambeau.tensor.pickle_limits import Weights, check_depth

_COPIES = 4  # so many times the size of its file a pickle may copy


class PickleError(ValueError):
    """A pickle that is damaged or wants what is not allowed; the text is for the final message."""


class Machine:
    """Runs one pickle from a seekable binary stream, which is left behind its STOP.

    persistent: called with the persistent ids of the file (BINPERSID), None if there are none.
    encoding: of the byte strings of Python 2; "bytes" leaves them bytes.
    limit: bytes of the stream that the pickle may have.
    whole: bytes of the whole file, the measure of what may be copied: a short file could want the same large
        list to be copied again and again.
    """

    def __init__(self, stream, rules, persistent=None, encoding="utf-8", limit=None, whole=0):
        self.stream, self.rules, self.persistent, self.encoding = stream, rules, persistent, encoding
        self.end = _end_of(stream) if limit is None else stream.tell() + limit
        self.stack, self.marks, self.memo = [], [], {}
        self.allowance = _COPIES * max(self.end - stream.tell(), whole) + 100_000
        self.weights = Weights()
        self.made = {}  # id of an object that this machine made -> it, which may be filled

    def run(self):
        """The object."""
        read, table = self.stream.read, _TABLE
        while True:
            code = read(1)
            if not code:
                raise PickleError("the pickle ends without its last opcode")
            if code == b".":
                break
            action = table[code[0]]
            if action is None:
                raise PickleError(f"unknown or refused opcode {code!r} at byte {self.stream.tell() - 1}")
            try:
                action(self)
            except (IndexError, struct.error, UnicodeDecodeError) as error:
                raise PickleError(
                    f"damaged at byte {self.stream.tell()} (opcode {code!r}): {error}"
                ) from None
        if self.marks or len(self.stack) != 1:
            raise PickleError(f"the pickle ends with {len(self.stack)} values on its stack instead of one")
        check_depth(self.stack[0])
        return self.stack[0]

    # ------------------------------------------------------------------ reading
    def take(self, size):
        """`size` bytes that must be there."""
        if size < 0 or size > self.end - self.stream.tell():
            raise PickleError(
                f"a value of {size} bytes at byte {self.stream.tell()} reaches over the end "
                f"({self.end} bytes)"
            )
        data = self.stream.read(size)
        if len(data) != size:
            raise PickleError(f"the pickle is truncated: {len(data)} of {size} bytes")
        return data

    def number(self, form):
        """A number of a fixed size; `form` is a struct.Struct."""
        return form.unpack(self.take(form.size))[0]

    def line(self):
        """The bytes up to the end of the line."""
        data = self.stream.readline(min(self.end - self.stream.tell(), 1 << 20) + 1)
        if not data.endswith(b"\n"):
            raise PickleError("a line of the pickle has no end")
        return data[:-1]

    def text(self, size):
        return self.take(size).decode("utf-8", "surrogatepass")

    # ------------------------------------------------------------------ stack
    def push(self, value):
        self.stack.append(value)

    def pop(self):
        if not self.stack or self.marks and len(self.stack) == self.marks[-1]:
            raise PickleError("the pickle takes more values from its stack than are there")
        return self.stack.pop()

    def top(self):
        if not self.stack:
            raise PickleError("the pickle takes a value from its empty stack")
        return self.stack[-1]

    def to_mark(self):
        """The values above the last mark, taken off."""
        if not self.marks:
            raise PickleError("the pickle closes a group that it never opened")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def several(self, count):
        return [self.pop() for _ in range(count)][::-1]

    # ------------------------------------------------------------------ what a value may become
    def spend(self, count):
        """Note that so many elements are copied."""
        self.allowance -= count
        if self.allowance < 0:
            raise PickleError("the file wants more copies of its data than its size suggests")

    def made_here(self, value):
        self.made[id(value)] = value
        return value

    def group(self, values):
        """A tuple, whose weight as a key is known from now on."""
        made = tuple(values)
        self.weights.note(made)
        return made

    def key(self, value):
        """`value` if it may be hashed at once."""
        self.weights.check(value)
        try:
            hash(value)
            self.weights.note_hash(value)
        except TypeError as error:
            raise PickleError(f"a key that cannot be one: {error}") from None
        return value

    def remember(self, index):
        self.memo[index] = self.top()

    def recall(self, index):
        if index not in self.memo:
            raise PickleError(f"the pickle recalls value {index}, which it never kept")
        self.push(self.memo[index])

    def extend(self, values):
        target = self.top()
        if type(target) is list:
            target.extend(values)
        elif id(target) in self.made:
            self.rules.extend(target, values)
        else:
            raise PickleError(f"the pickle appends to a {type(target).__name__}")

    def set_items(self, values):
        target = self.top()
        if len(values) % 2:
            raise PickleError("a key without a value")
        pairs = [(self.key(key), value) for key, value in zip(values[::2], values[1::2])]
        if type(target) is dict:
            target.update(pairs)
        elif id(target) in self.made:
            self.rules.set_items(target, pairs)
        else:
            raise PickleError(f"the pickle sets items of a {type(target).__name__}")

    def add_items(self, values):
        target = self.top()
        if type(target) is not set:
            raise PickleError(f"the pickle adds members to a {type(target).__name__}")
        target.update(map(self.key, values))

    def named(self, module, name):
        if type(module) is not str or type(name) is not str:
            raise PickleError("the pickle names a global by what is no text")
        self.push(self.rules.find(module, name))

    def reduce(self):
        what, args = self.several(2)
        if type(args) is not tuple:
            raise PickleError(f"the pickle calls with arguments that are a {type(args).__name__}")
        if what is set or what is frozenset:
            members = _members(args)
            self.spend(len(members))
            made = what(map(self.key, members))
            if what is frozenset:
                self.weights.note(made)
            self.push(made)
            return
        self.push(self.made_here(self.rules.call(what, args, self)))

    def new_object(self, kwargs=None):
        kind, args = self.several(2)
        if (
            type(args) is not tuple
            or kwargs is not None
            and (type(kwargs) is not dict or not all(type(k) is str for k in kwargs))
        ):
            raise PickleError("the pickle makes an object with arguments that are none")
        made = self.rules.new(kind, args, kwargs or {}, self)
        if isinstance(made, (tuple, frozenset)):
            self.spend(len(made))
            self.weights.note(made)
        self.push(self.made_here(made))

    def build(self):
        state, target = self.pop(), self.top()
        if id(target) not in self.made:
            raise PickleError(f"the pickle sets the state of a {type(target).__name__} that it did not make")
        for part in state if type(state) is tuple else (state,):
            self.spend(len(part) if isinstance(part, (dict, list, bytes, bytearray, str)) else 1)
        self.rules.fill(target, state)

    def persist(self):
        identity = self.pop()
        if self.persistent is None:
            raise PickleError("the pickle refers to data outside of it, and there is none")
        self.push(self.persistent(identity))

    def byte_string(self, data):
        self.push(data if self.encoding == "bytes" else data.decode(self.encoding))


def _members(args):
    """The one list that `set(...)` is called with in a pickle."""
    if len(args) > 1 or args and type(args[0]) not in (list, tuple, set, frozenset):
        raise PickleError("a set is made of what is no list")
    return args[0] if args else ()


def _end_of(stream):
    position = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    return end


# ---------------------------------------------------------------------------------- opcodes
def _proto(m):
    version = m.take(1)[0]
    if version > 5:
        raise PickleError(f"a pickle of protocol {version}, which does not exist yet")


def _frame(m):
    size = m.number(_U8)
    if size > m.end - m.stream.tell():
        raise PickleError(f"a frame of {size} bytes reaches over the end of the pickle")


def _pop_opcode(m):
    if m.marks and len(m.stack) == m.marks[-1]:
        m.marks.pop()
    else:
        m.pop()


def _dict_of(m):
    values = m.to_mark()
    m.push({})
    m.set_items(values)


def _frozen(m):
    made = frozenset(map(m.key, m.to_mark()))
    m.weights.note(made)
    m.push(made)


def _ascii_int(m):
    data = m.line()
    m.push({b"00": False, b"01": True}[data] if data in (b"00", b"01") else _whole(data))


def _ascii_long(m):
    data = m.line()
    m.push(_whole(data[:-1] if data.endswith(b"L") else data))


def _whole(data):
    try:
        return int(data)
    except ValueError as error:
        raise PickleError(str(error)) from None


def _ascii_float(m):
    try:
        m.push(float(m.line()))
    except ValueError as error:
        raise PickleError(str(error)) from None


def _ascii_string(m):
    data = m.line().strip()
    if len(data) < 2 or data[:1] != data[-1:] or data[:1] not in (b"'", b'"'):
        raise PickleError("a string without its quotes")
    try:
        m.byte_string(codecs.escape_decode(data[1:-1])[0])
    except ValueError as error:
        raise PickleError(str(error)) from None


def _global(m):
    m.named(m.line().decode(), m.line().decode())


def _put(m):
    m.remember(_whole(m.line()))


def _new_with_names(m):
    kwargs = m.pop()
    m.new_object(kwargs)


_I1, _U1, _U2 = struct.Struct("<b"), struct.Struct("<B"), struct.Struct("<H")
_I4, _U4, _U8, _DOUBLE = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<Q"), struct.Struct(">d")

# Refused by their absence: P (PERSID), i (INST), o (OBJ), the extension registry, out-of-band buffers.
_ACTIONS = {
    b"\x80": _proto,
    b"\x95": _frame,
    b"(": lambda m: m.marks.append(len(m.stack)),
    b"0": _pop_opcode,
    b"1": lambda m: m.to_mark(),
    b"2": lambda m: m.push(m.top()),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"I": _ascii_int,
    b"L": _ascii_long,
    b"F": _ascii_float,
    b"S": _ascii_string,
    b"V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
    b"J": lambda m: m.push(m.number(_I4)),
    b"K": lambda m: m.push(m.number(_U1)),
    b"M": lambda m: m.push(m.number(_U2)),
    b"\x8a": lambda m: m.push(int.from_bytes(m.take(m.number(_U1)), "little", signed=True)),
    b"\x8b": lambda m: m.push(int.from_bytes(m.take(m.number(_I4)), "little", signed=True)),
    b"G": lambda m: m.push(m.number(_DOUBLE)),
    b"T": lambda m: m.byte_string(m.take(m.number(_I4))),
    b"U": lambda m: m.byte_string(m.take(m.number(_U1))),
    b"B": lambda m: m.push(m.take(m.number(_U4))),
    b"C": lambda m: m.push(m.take(m.number(_U1))),
    b"\x8e": lambda m: m.push(m.take(m.number(_U8))),
    b"\x96": lambda m: m.push(bytearray(m.take(m.number(_U8)))),
    b"X": lambda m: m.push(m.text(m.number(_U4))),
    b"\x8c": lambda m: m.push(m.text(m.number(_U1))),
    b"\x8d": lambda m: m.push(m.text(m.number(_U8))),
    b")": lambda m: m.push(()),
    b"]": lambda m: m.push([]),
    b"}": lambda m: m.push({}),
    b"\x8f": lambda m: m.push(set()),
    b"\x85": lambda m: m.push(m.group(m.several(1))),
    b"\x86": lambda m: m.push(m.group(m.several(2))),
    b"\x87": lambda m: m.push(m.group(m.several(3))),
    b"t": lambda m: m.push(m.group(m.to_mark())),
    b"l": lambda m: m.push(m.to_mark()),
    b"d": _dict_of,
    b"\x91": _frozen,
    b"a": lambda m: m.extend([m.pop()]),
    b"e": lambda m: m.extend(m.to_mark()),
    b"s": lambda m: m.set_items(m.several(2)),
    b"u": lambda m: m.set_items(m.to_mark()),
    b"\x90": lambda m: m.add_items(m.to_mark()),
    b"p": _put,
    b"q": lambda m: m.remember(m.number(_U1)),
    b"r": lambda m: m.remember(m.number(_U4)),
    b"\x94": lambda m: m.remember(len(m.memo)),
    b"g": lambda m: m.recall(_whole(m.line())),
    b"h": lambda m: m.recall(m.number(_U1)),
    b"j": lambda m: m.recall(m.number(_U4)),
    b"c": _global,
    b"\x93": lambda m: m.named(*m.several(2)),
    b"R": lambda m: m.reduce(),
    b"\x81": lambda m: m.new_object(),
    b"\x92": _new_with_names,
    b"b": lambda m: m.build(),
    b"Q": lambda m: m.persist(),
}
_TABLE = [_ACTIONS.get(bytes([code])) for code in range(256)]


def globals_of(data):
    """The names (module, name) that a pickle mentions, found without running it; damage ends the list."""
    import pickletools

    found, strings = [], []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL":
                found.append(tuple(argument.split(" ", 1)))
            elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
                found.append((strings[-2], strings[-1]))
            if isinstance(argument, str) and "UNICODE" in opcode.name:
                strings.append(argument)
    except (ValueError, UnicodeDecodeError, IndexError):
        pass
    return list(dict.fromkeys(found))
