"""LLVM text -> object code or assembly, through llvmlite.

The pass list is short and fixed: kernels come with their vectors, loops and unrolling already written, so
LLVM's vectorisers would only cost time and change the order of sums. FLAMBEAU_OPT chooses 0 (no passes: for
tests of many kernels), 1, 2 (default) or 3 for code generation.
"""

import ctypes
import functools
import itertools
import os
import threading
import time
from dataclasses import dataclass

from flambeau.compiler import target as targets

_LOCK = threading.Lock()        # counters and LLVM's linker: one thread at a time
_MADE = threading.local()       # LLVM's objects that only one thread may use
_KEEP = []                      # LLJIT libraries live as long as the process
_NUMBERS = itertools.count()    # of those libraries: a name cannot be used twice, not even after a failure


@dataclass
class Counters:
    """What this process compiled: modules and seconds."""

    compiled: int = 0
    seconds: float = 0.0


counters = Counters()


def compile_text(text, target=None):
    """The relocatable object of LLVM module `text`, as bytes, for `target` (default: the current one).

    ValueError, with LLVM's message and the offending lines, if the text is not a valid module.
    """
    began = time.perf_counter()
    machine, module = _optimized(text, target or targets.current())
    data = _emit(machine, module)
    with _LOCK:
        counters.compiled += 1
        counters.seconds += time.perf_counter() - began
    return data


def assembly(text, target=None):
    """The assembly of LLVM module `text`."""
    machine, module = _optimized(text, target or targets.current())
    return machine.emit_assembly(module)


def optimized(text, target=None):
    """The LLVM text of module `text` after the passes."""
    return str(_optimized(text, target or targets.current())[1])


def load_with_llvm(data, names):
    """Load an object through LLVM's own linker: {symbol name: address}.

    The fallback for platforms and relocations that `runtime.library` does not know.
    """
    from llvmlite import binding
    with _LOCK:
        compiler = _lljit()
        builder = binding.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name in names:
            builder = builder.export_symbol(name)
        library = builder.link(compiler, f"kernels{next(_NUMBERS)}")
        _KEEP.append(library)
    addresses = {name: library[name] for name in names}
    missing = [name for name, address in addresses.items() if not address]
    if missing:
        raise OSError(f"[jit] the object does not define {', '.join(missing)}")
    return addresses


def callable_kernel(kernel, target=None):
    """Compile `kernel` and return `run(buffers, params=(), begin=0, end=...)`, for tests and experiments.

    `buffers` are 1-d NumPy arrays (or addresses) in the order of the kernel, `params` ints.
    >>> run = callable_kernel(kernel); run([x, out], [n], 0, n)       # doctest: +SKIP
    """
    from flambeau.compiler.llvm import emit
    chosen = target or targets.current()
    return callable_text(emit(kernel, chosen), kernel.name, chosen)


def callable_text(text, name, target=None):
    """As `callable_kernel`, from LLVM text and the name of its function."""
    from flambeau.compiler.objects import load_object_bytes
    address = load_object_bytes(compile_text(text, target), name)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)

    def run(buffers, params=(), begin=0, end=0):
        values = [b if isinstance(b, int) else b.ctypes.data for b in buffers] + [int(p) for p in params]
        arguments = (ctypes.c_int64 * max(1, len(values)))(*values)
        function(ctypes.addressof(arguments), begin, end)
    run.text, run.address = text, address
    return run


# ---------------------------------------------------------------------- inside
def _renew_lock():
    """In a forked child: another thread of the parent may have held the lock."""
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _optimized(text, target):
    """(target machine, module after the passes)."""
    from llvmlite import binding
    level = _level()
    machine = _machine(target, level)
    try:
        module = binding.parse_assembly(text, binding.context.create_context())
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise ValueError(f"[jit] LLVM refuses the module: {error}\n{_numbered(text, str(error))}") from None
    if level:
        _unlocked("LLVMPY_RunNewModulePassManager")(_passes(level), module, _pass_builder(target, level))
    return machine, module


def _emit(machine, module):
    """The object of a module."""
    from llvmlite.binding import ffi
    with ffi.OutputString() as problem:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _unlocked(name):
    """A function of LLVM without llvmlite's lock: two modules with contexts and target machines of their own
    may be worked on at a time."""
    from llvmlite.binding import ffi
    function = getattr(ffi.lib, name)
    return getattr(function, "_cfn", function)


def _one_a_thread(function):
    """Remember what the function makes, for each thread of its own."""
    @functools.wraps(function)
    def made(*args):
        known = _MADE.__dict__
        key = function.__name__, args
        if key not in known:
            known[key] = function(*args)
        return known[key]
    return made


def _level():
    from flambeau.base.flags import flags
    return int(flags.opt)


@_one_a_thread
def _machine(target, level):
    from llvmlite import binding
    if target.triple == targets.by_name("native").triple:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    cpu, features = target.cpu, target.llvm_features
    if cpu == "native":
        cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small")


@_one_a_thread
def _pass_builder(target, level):
    from llvmlite import binding
    tuning = binding.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    tuning.loop_unrolling = tuning.loop_interleaving = False
    return binding.create_pass_builder(_machine(target, level), tuning)


@functools.cache
def _switch_off():
    """A part of LLVM's value numbering that takes what a loop's first round computes for what all rounds do."""
    from llvmlite import binding
    binding.set_option("flambeau", "-enable-phi-of-ops=false")


@_one_a_thread
def _passes(level):
    from llvmlite import binding
    _switch_off()
    manager = binding.create_new_module_pass_manager()
    manager.add_sroa_pass()                         # Declare and Assign become registers
    if level >= 2:
        manager.add_new_gvn_pass()                  # the same value is computed once
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager


@functools.cache
def _lljit():
    from llvmlite import binding
    machine = _machine(targets.by_name("native"), 2)
    return binding.create_lljit_compiler(machine)


def _numbered(text, message):
    """The lines of `text` around the one that LLVM's message names."""
    parts = message.replace(":", " ").split()
    wanted = next((int(p) for p in parts if p.isdigit()), 1)
    lines = text.splitlines()
    shown = range(max(1, wanted - 2), min(len(lines), wanted + 2) + 1)
    return "\n".join(f"{n:5} {lines[n - 1]}" for n in shown)
