"""Loads and stores as LLVM text: consecutive, gathered and masked; lanes masked off touch no memory.

Masked accesses use LLVM's intrinsics where the processor has instructions for them, and a compact loop over
the lanes elsewhere (LLVM's own expansion is a branch a lane, which is slow to compile).
"""

from flambeau.compiler import backwards, every_other
from flambeau.compiler.llvm_values import integer_splat, mangle, memory_type, vector


def emit_load(writer, load):
    """The operand of a Load."""
    first = every_other.base_of(load.index) if load.mask is None else None
    if first is not None:
        pointer = _element(writer, load.buffer, load.dtype, writer.value(first))
        return _from_memory(writer, load, every_other.load(writer, load.dtype, load.lanes, pointer))
    first = backwards.base_of(load.index)
    if first is not None:
        return _load_backwards(writer, load, first)
    index = writer.value(load.index)
    mask, other = _mask_and_other(writer, load)
    return _from_memory(writer, load, _loaded(writer, load, _address(writer, load, index), mask, other, load.index.lanes > 1))


def _load_backwards(writer, load, first):
    """The load whose lane 0 is at `first` and whose others stand in front of it."""
    mask, other = _mask_and_other(writer, load)
    pointer = _element(writer, load.buffer, load.dtype, writer.value(backwards.lowest(first, load.lanes)))
    mask = backwards.turned(writer, "i1", load.lanes, mask)
    other = backwards.turned(writer, memory_type(load.dtype), load.lanes, other)
    loaded = _loaded(writer, load, pointer, mask, other, False)
    return _from_memory(writer, load, backwards.turned(writer, memory_type(load.dtype), load.lanes, loaded))


def _mask_and_other(writer, load):
    """The operands of a load's mask, and of what lanes masked off yield; None where it has none."""
    mask = writer.value(load.mask) if load.mask is not None else None
    other = _to_memory(writer, load, writer.value(load.other)) if load.other is not None else None
    if mask is not None and other is None:
        other = "zeroinitializer" if load.lanes > 1 else _zero(memory_type(load.dtype))
    return mask, other


def _loaded(writer, load, pointer, mask, other, gathered):
    """What stands at `pointer`, as in memory."""
    kind = memory_type(load.dtype, load.lanes)
    if load.lanes == 1:
        return _scalar_load(writer, load, pointer, mask, other)
    if mask is None and not gathered:
        return writer.line(f"load {kind}, ptr {pointer}, align {load.dtype.itemsize}")
    if _has_instruction(writer.target, load.dtype, gathered, is_store=False):
        return _masked_load(writer, load, pointer, mask, other, gathered)
    if mask is None:
        return _gather_lanes(writer, load, pointer)
    return _load_lanes(writer, load, pointer, mask, other, gathered)


def emit_store(writer, store):
    """Write a Store."""
    value = _to_memory(writer, store.value, writer.value(store.value))
    dtype, lanes = store.value.dtype, store.value.lanes
    first = every_other.base_of(store.index) if store.mask is None else None
    if first is not None and _has_instruction(writer.target, dtype, False, is_store=True):
        pointer = _element(writer, store.buffer, dtype, writer.value(first))
        return every_other.store(writer, dtype, lanes, pointer, value)
    index = writer.value(store.index)
    mask = writer.value(store.mask) if store.mask is not None else None
    scattered = store.index.lanes > 1
    pointer = _address(writer, store, index)
    if lanes == 1:
        _scalar_store(writer, dtype, value, pointer, mask)
    elif mask is None and not scattered:
        writer.effect(f"store {memory_type(dtype, lanes)} {value}, ptr {pointer}, align {dtype.itemsize}")
    elif _has_instruction(writer.target, dtype, scattered, is_store=True):
        _masked_store(writer, store, value, pointer, mask, scattered)
    elif mask is None:
        _scatter_lanes(writer, store, value, pointer)
    else:
        _store_lanes(writer, store, value, pointer, mask, scattered)


def emit_prefetch(writer, prefetch):
    """Write a Prefetch: into the nearest cache."""
    writer.declare("llvm.prefetch.p0", "void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    dtype = next(b.dtype for b in writer.kernel.buffers if b.name == prefetch.buffer)
    pointer = writer.line(f"getelementptr {memory_type(dtype)}, ptr {writer.pointers[prefetch.buffer]}, "
                          f"i64 {writer.value(prefetch.index)}")
    writer.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(prefetch.write)}, i32 3, i32 1)")


def _has_instruction(target, dtype, indexed, is_store):
    """Whether a masked access of `dtype` is worth LLVM's intrinsic."""
    if not target.is_x86:
        return False
    if target.has("avx512f"):
        wide = dtype.itemsize >= 4
        return wide if indexed else wide or (target.has("avx512bw") and target.has("avx512vl"))
    return target.has("avx2") and not indexed and dtype.itemsize >= 4


def _address(writer, access, index):
    """A pointer, or a vector of pointers where the index is a vector."""
    base, lanes = writer.pointers[access.buffer], access.index.lanes
    dtype = access.value.dtype if hasattr(access, "value") else access.dtype
    if index == "0":
        return base
    return writer.line(f"getelementptr {memory_type(dtype)}, ptr {base}, {vector('i64', lanes)} {index}")


def _element(writer, buffer, dtype, index):
    """A pointer to one element."""
    base = writer.pointers[buffer]
    return base if index == "0" else writer.line(f"getelementptr {memory_type(dtype)}, ptr {base}, i64 {index}")


def _zero(kind):
    return "0.0" if kind in ("float", "double") else "0"


def _to_memory(writer, value, operand):
    if value.dtype.kind != "b":
        return operand
    return writer.line(f"zext {vector('i1', value.lanes)} {operand} to {vector('i8', value.lanes)}")


def _from_memory(writer, value, operand):
    if value.dtype.kind != "b":
        return operand
    return writer.line(f"icmp ne {vector('i8', value.lanes)} {operand}, {integer_splat(0, 8, value.lanes)}")


def _scalar_load(writer, load, pointer, mask, other):
    kind, align = memory_type(load.dtype), load.dtype.itemsize
    if mask is None:
        return writer.line(f"load {kind}, ptr {pointer}, align {align}")
    read, after = writer.labels("read", "after")
    before = writer.block
    writer.effect(f"br i1 {mask}, label %{read}, label %{after}")
    writer.start_block(read)
    loaded = writer.line(f"load {kind}, ptr {pointer}, align {align}")
    writer.effect(f"br label %{after}")
    writer.start_block(after)
    return writer.line(f"phi {kind} [ {loaded}, %{read} ], [ {other}, %{before} ]")


def _scalar_store(writer, dtype, value, pointer, mask):
    text = f"store {memory_type(dtype)} {value}, ptr {pointer}, align {dtype.itemsize}"
    if mask is None:
        return writer.effect(text)
    write, after = writer.labels("write", "after")
    writer.effect(f"br i1 {mask}, label %{write}, label %{after}")
    writer.start_block(write)
    writer.effect(text)
    writer.effect(f"br label %{after}")
    writer.start_block(after)


# ---------------------------------------------------------------------- LLVM's intrinsics
def _masked_load(writer, load, pointer, mask, other, gathered):
    lanes, kind = load.lanes, memory_type(load.dtype, load.lanes)
    suffix = mangle(memory_type(load.dtype), lanes)
    mask = mask or "splat (i1 true)"
    other = other or "poison"
    if gathered:
        name, pointers = f"llvm.masked.gather.{suffix}.v{lanes}p0", vector("ptr", lanes)
    else:
        name, pointers = f"llvm.masked.load.{suffix}.p0", "ptr"
    return writer.call(name, kind, (pointers, pointer), ("i32", str(load.dtype.itemsize)),
                       (vector("i1", lanes), mask), (kind, other))


def _masked_store(writer, store, value, pointer, mask, scattered):
    dtype, lanes = store.value.dtype, store.value.lanes
    kind, suffix = memory_type(dtype, lanes), mangle(memory_type(dtype), lanes)
    if scattered:
        name, pointers = f"llvm.masked.scatter.{suffix}.v{lanes}p0", vector("ptr", lanes)
    else:
        name, pointers = f"llvm.masked.store.{suffix}.p0", "ptr"
    writer.call(name, "void", (kind, value), (pointers, pointer), ("i32", str(dtype.itemsize)),
                (vector("i1", lanes), mask or "splat (i1 true)"))


# ---------------------------------------------------------------------- lane by lane
def _gather_lanes(writer, load, pointers):
    kind, scalar = memory_type(load.dtype, load.lanes), memory_type(load.dtype)
    result = "poison"
    for lane in range(load.lanes):
        pointer = writer.line(f"extractelement {vector('ptr', load.lanes)} {pointers}, i64 {lane}")
        element = writer.line(f"load {scalar}, ptr {pointer}, align {load.dtype.itemsize}")
        result = writer.line(f"insertelement {kind} {result}, {scalar} {element}, i64 {lane}")
    return result


def _scatter_lanes(writer, store, value, pointers):
    dtype, lanes = store.value.dtype, store.value.lanes
    kind, scalar = memory_type(dtype, lanes), memory_type(dtype)
    for lane in range(lanes):
        pointer = writer.line(f"extractelement {vector('ptr', lanes)} {pointers}, i64 {lane}")
        element = writer.line(f"extractelement {kind} {value}, i64 {lane}")
        writer.effect(f"store {scalar} {element}, ptr {pointer}, align {dtype.itemsize}")


def _load_lanes(writer, load, pointer, mask, other, gathered):
    """A loop that reads the chosen lanes into a stack slot filled with `other`."""
    kind, scalar = memory_type(load.dtype, load.lanes), memory_type(load.dtype)
    slot = writer.alloca(kind)
    writer.effect(f"store {kind} {other}, ptr {slot}, align 64")

    def move(lane, address):
        element = writer.line(f"load {scalar}, ptr {address}, align {load.dtype.itemsize}")
        inside = writer.line(f"getelementptr {scalar}, ptr {slot}, i64 {lane}")
        writer.effect(f"store {scalar} {element}, ptr {inside}, align {load.dtype.itemsize}")

    _each_lane(writer, load.lanes, scalar, pointer, mask, gathered, move)
    return writer.line(f"load {kind}, ptr {slot}, align 64")


def _store_lanes(writer, store, value, pointer, mask, scattered):
    """A loop that writes the chosen lanes from a stack slot."""
    dtype, lanes = store.value.dtype, store.value.lanes
    kind, scalar = memory_type(dtype, lanes), memory_type(dtype)
    slot = writer.alloca(kind)
    writer.effect(f"store {kind} {value}, ptr {slot}, align 64")

    def move(lane, address):
        inside = writer.line(f"getelementptr {scalar}, ptr {slot}, i64 {lane}")
        element = writer.line(f"load {scalar}, ptr {inside}, align {dtype.itemsize}")
        writer.effect(f"store {scalar} {element}, ptr {address}, align {dtype.itemsize}")

    _each_lane(writer, lanes, scalar, pointer, mask, scattered, move)


def _each_lane(writer, lanes, scalar, pointer, mask, indexed, move):
    """Run `move(lane, address)` for the lanes of `mask`, in order, as a loop."""
    mask = writer.line(f"zext {vector('i1', lanes)} {mask} to {vector('i8', lanes)}")
    chosen = _spill(writer, "i8", lanes, mask)
    addresses = _spill(writer, "ptr", lanes, pointer) if indexed else None
    before, (head, inside, latch, after) = writer.block, writer.labels("lane", "move", "latch", "after")
    writer.effect(f"br label %{head}")
    writer.start_block(head)
    lane, following = writer.fresh("lane"), writer.fresh("next")
    writer.effect(f"{lane} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
    flag = writer.line(f"load i8, ptr {writer.line(f'getelementptr i8, ptr {chosen}, i64 {lane}')}, align 1")
    writer.effect(f"br i1 {writer.line(f'icmp ne i8 {flag}, 0')}, label %{inside}, label %{latch}")
    writer.start_block(inside)
    if indexed:
        slot = writer.line(f"getelementptr ptr, ptr {addresses}, i64 {lane}")
        address = writer.line(f"load ptr, ptr {slot}, align 8")
    else:
        address = writer.line(f"getelementptr {scalar}, ptr {pointer}, i64 {lane}")
    move(lane, address)
    writer.effect(f"br label %{latch}")
    writer.start_block(latch)
    writer.effect(f"{following} = add nuw nsw i64 {lane}, 1")
    writer.effect(f"br i1 {writer.line(f'icmp ult i64 {following}, {lanes}')}, label %{head}, label %{after}")
    writer.start_block(after)


def _spill(writer, scalar, lanes, operand):
    kind = vector(scalar, lanes)
    slot = writer.alloca(kind)
    writer.effect(f"store {kind} {operand}, ptr {slot}, align 64")
    return slot
