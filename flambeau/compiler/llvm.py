"""Loops -> LLVM text. One kernel becomes one function `void(ptr args, i64 begin, i64 end)`.

The text is already close to what we want from the processor: vectors are explicit, loops are rotated, and
`unroll` loops are written out. LLVM is left with registers, instruction selection and clean-up. There are no
fast-math flags, and no `noalias`: an output may be the very buffer of an input.
"""

import re

from flambeau.compiler import llvm_operations, target as targets
from flambeau.compiler.llvm_memory import emit_load, emit_prefetch, emit_store
from flambeau.compiler.llvm_values import constant, memory_type, register_type
from flambeau.ir import loops

_MAX_UNROLL = 4096          # statements that an unrolled loop may become


def emit(kernel, target=None):
    """The LLVM module of `kernel`, as text, for `target` (default: `target.current()`).

    The kernel is verified already, and has no `vector` loops, splices or mathematical functions left; a
    ValueError names what is left over.
    """
    return _Writer(kernel, target or targets.current()).module()


class _Writer:
    """Writes the function; `line` appends an instruction and returns the name of its result."""

    def __init__(self, kernel, target):
        self.kernel, self.target = kernel, target
        self.lines, self.allocas, self.declarations = [], [], {}
        self.helpers = {}                                      # name -> text of a function beside the kernel
        self.values = {"begin": "%begin", "end": "%end"}      # name of a Let, index or param -> operand
        self.variables, self.slots = {}, {}                    # name of a Declare -> its stack slot; all slots
        self.pointers = {}                                     # name of a buffer or Local -> operand
        self.count, self.block, self.stem = 0, "entry", None

    # ------------------------------------------------------------------ text
    def module(self):
        arguments = self._load_arguments()
        self._statements(self.kernel.body)
        declarations = "".join(f"declare {text}\n" for text in sorted(self.declarations.values()))
        body = "\n".join(["entry:", *self.allocas, *arguments, *self.lines, "  ret void"])
        head = f'define void @"{self.kernel.name}"(ptr %args, i64 %begin, i64 %end) nounwind'
        return f"{declarations}{''.join(self.helpers.values())}{head} {{\n{body}\n}}\n"

    def fresh(self, stem="t"):
        self.count += 1
        return f"%{stem}.{self.count}"

    def line(self, instruction):
        """Append an instruction that has a result; return the result's name."""
        name = self.fresh(self.stem or "t")
        self.lines.append(f"  {name} = {instruction}")
        return name

    def effect(self, instruction):
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def declare(self, name, signature):
        self.declarations[name] = signature

    def helper(self, name, text):
        """Have function `name`, whose definition is `text`, beside the kernel."""
        self.helpers[name] = text

    def call(self, name, result, *arguments):
        """Call function `name`; arguments are (type, operand) pairs; `result` is a type."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declare(name, f"{result} @{name}({types})")
        operands = ", ".join(f"{kind} {operand}" for kind, operand in arguments)
        if result == "void":
            return self.effect(f"call void @{name}({operands})")
        return self.line(f"call {result} @{name}({operands})")

    def alloca(self, kind, stem="slot"):
        name = self.fresh(stem)
        self.allocas.append(f"  {name} = alloca {kind}, align 64")
        return name

    def start_block(self, label):
        """`label` without the percent sign."""
        self.lines.append(f"{label}:")
        self.block = label

    def labels(self, *stems):
        self.count += 1
        return [f"{stem}.{self.count}" for stem in stems]

    def _load_arguments(self):
        outer, self.lines = self.lines, []
        names = [b.name for b in self.kernel.buffers] + list(self.kernel.params)
        for position, name in enumerate(names):
            slot = self.line(f"getelementptr i64, ptr %args, i64 {position}")
            is_buffer = position < len(self.kernel.buffers)
            self.stem = _identifier(name)
            value = self.line(f"load {'ptr' if is_buffer else 'i64'}, ptr {slot}, align 8")
            self.stem = None
            (self.pointers if is_buffer else self.values)[name] = value
        arguments, self.lines = self.lines, outer
        return arguments

    def _refuse(self, why):
        raise ValueError(f"[llvm] {self.kernel.name}: {why}")

    # ------------------------------------------------------------------ statements
    def _statements(self, body):
        for statement in body:
            method = getattr(self, "_" + type(statement).__name__.lower(), None)
            if method is None:
                self._refuse(f"a {type(statement).__name__} was never filled")
            method(statement)

    def _let(self, statement):
        self.stem = _identifier(statement.name)
        value = self.value(statement.value)
        self.variables.pop(statement.name, None)        # of a block that has ended
        self.values[statement.name], self.stem = value, None

    def _declare(self, statement):
        value = statement.value
        kind = register_type(value.dtype, value.lanes)
        operand = self.value(value)
        if (statement.name, kind) not in self.slots:
            self.slots[statement.name, kind] = self.alloca(kind, _identifier(statement.name))
        self.variables[statement.name] = self.slots[statement.name, kind]
        self.effect(f"store {kind} {operand}, ptr {self.variables[statement.name]}")

    def _assign(self, statement):
        value = statement.value
        kind = register_type(value.dtype, value.lanes)
        self.effect(f"store {kind} {self.value(value)}, ptr {self.variables[statement.name]}")

    def _store(self, statement):
        emit_store(self, statement)

    def _prefetch(self, statement):
        emit_prefetch(self, statement)

    def _local(self, statement):
        kind = f"[{statement.size} x {memory_type(statement.dtype)}]"
        self.pointers[statement.name] = self.alloca(kind, _identifier(statement.name))

    def _for(self, loop):
        if loop.kind == "vector":
            self._refuse(f"the vector loop over {loop.index} was never vectorised")
        start, stop = self.value(loop.start), self.value(loop.stop)
        if loop.kind == "unroll" and _is_literal(start) and _is_literal(stop):
            return self._unrolled(loop, range(int(start), int(stop), loop.step))
        before, (body, after) = self.block, self.labels("loop", "after")
        self.effect(f"br i1 {self.line(f'icmp slt i64 {start}, {stop}')}, label %{body}, label %{after}")
        self.start_block(body)
        index, following = self.fresh(_identifier(loop.index)), self.fresh("next")
        phi_at = len(self.lines)
        self.variables.pop(loop.index, None)
        self.values[loop.index] = index
        self._statements(loop.body)
        incoming = f"[ {start}, %{before} ], [ {following}, %{self.block} ]"
        self.lines.insert(phi_at, f"  {index} = phi i64 {incoming}")
        self.lines.append(f"  {following} = add nsw i64 {index}, {loop.step}")
        self.effect(f"br i1 {self.line(f'icmp slt i64 {following}, {stop}')}, label %{body}, label %{after}")
        self.start_block(after)

    def _unrolled(self, loop, indices):
        if len(indices) * max(1, len(loop.body)) > _MAX_UNROLL:
            self._refuse(f"unrolling {loop.index} makes {len(indices)} copies of {len(loop.body)} "
                         "statements; use a serial loop")
        self.variables.pop(loop.index, None)
        for index in indices:
            self.values[loop.index] = str(index)
            self._statements(loop.body)

    def _if(self, statement):
        then, orelse, after = self.labels("then", "else", "endif")
        condition = self.value(statement.condition)
        self.effect(f"br i1 {condition}, label %{then}, label %{orelse if statement.orelse else after}")
        for label, body in ((then, statement.then), (orelse, statement.orelse)):
            if label is then or body:
                self.start_block(label)
                self._statements(body)
                self.effect(f"br label %{after}")
        self.start_block(after)

    # ------------------------------------------------------------------ values
    def value(self, expr):
        """Write the instructions of `expr`; return its operand."""
        if isinstance(expr, loops.Const):
            return constant(expr.value, expr.dtype, expr.lanes)
        if isinstance(expr, loops.Var):
            return self._variable(expr)
        if isinstance(expr, loops.Load):
            return emit_load(self, expr)
        if isinstance(expr, loops.Apply):
            return llvm_operations.emit_apply(self, expr, [self.value(a) for a in expr.args])
        self._refuse(f"a {type(expr).__name__} was never filled")

    def _variable(self, expr):
        if expr.name in self.variables:
            kind = register_type(expr.dtype, expr.lanes)
            return self.line(f"load {kind}, ptr {self.variables[expr.name]}")
        return self.values[expr.name]


def _is_literal(operand):
    return operand.lstrip("-").isdigit()


def _identifier(name):
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
