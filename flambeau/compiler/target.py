"""The processor that kernels are generated for: name, LLVM features and the key of the object cache.

What the machine can do is read from the operating system, not from LLVM: a process whose kernels are all in
the cache never imports llvmlite. FLAMBEAU_TARGET chooses 'native' (default), 'generic', 'avx2' or 'avx512'.
"""

import functools
import hashlib
import platform
from dataclasses import dataclass

# What the code generator asks about, by the kernel's name of the feature (Linux's /proc/cpuinfo).
_AVX2 = ("sse4_1", "avx", "avx2", "fma", "f16c")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq")
_BEYOND = ("avx512_vnni", "avx_vnni")       # in no level
_X86_LEVELS = {"generic": ("x86-64", ()), "avx2": ("x86-64-v3", _AVX2), "avx512": ("x86-64-v4", _AVX512)}
_ARM = ("neon", "fma", "f16c", "sse4_1")    # AArch64 rounds, fuses and converts half precision in hardware


@dataclass(frozen=True)
class Target:
    """A processor: `cpu` and `llvm_features` are LLVM's names ('native' asks LLVM about this machine).

    `features` are the ones that change the generated text; `key` tells apart objects that are not
    interchangeable.
    """

    name: str
    triple: str
    cpu: str
    llvm_features: str
    features: frozenset
    key: str

    def has(self, feature):
        """True if the processor has `feature`, named as in /proc/cpuinfo (sse4_1, fma, f16c, avx2, ...)."""
        return feature in self.features

    @property
    def vector_bytes(self):
        """Width of a vector register in bytes."""
        return 64 if self.has("avx512f") else 32 if self.has("avx2") else 16

    @property
    def is_x86(self):
        return self.triple.startswith("x86_64")


def current():
    """The target that FLAMBEAU_TARGET names, by default this machine."""
    from flambeau.base.flags import flags
    return by_name(getattr(flags, "target", None) or "native")


@functools.cache
def by_name(name):
    """The target `name`: 'native', 'generic', 'avx2', 'avx512' or 'aarch64'; ValueError for others."""
    if name == "native":
        return _native()
    if name == "aarch64":
        return _make(name, "aarch64-unknown-linux-gnu", "generic", "", _ARM, "")
    if name == "generic" and not _is_x86(platform.machine()):
        return _make(name, _host_triple(), "generic", "", _ARM, "")
    if name in _X86_LEVELS:
        cpu, features = _X86_LEVELS[name]
        return _make(name, _host_triple("x86_64"), cpu, "", features, "")
    choices = ", ".join(["native", "aarch64", *_X86_LEVELS])
    raise ValueError(f"[target] unknown target {name!r}: choose one of {choices}")


def _make(name, triple, cpu, llvm_features, features, detail):
    text = "|".join((triple, cpu, llvm_features, " ".join(sorted(features)), detail))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Target(name, triple, cpu, llvm_features, frozenset(features), f"{name}-{digest}")


def _native():
    machine = platform.machine()
    model, found = _processor()
    if _is_x86(machine):
        features = tuple(f for f in (*_AVX512, *_BEYOND) if f in found)
    else:
        features = _ARM
    detail = model + " " + " ".join(sorted(found))
    return _make("native", _host_triple(), "native", "native", features, detail)


def _is_x86(machine):
    return machine.lower() in ("x86_64", "amd64")


def _host_triple(machine=None):
    machine = machine or platform.machine().lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    systems = {"Darwin": "apple-darwin", "Windows": "pc-windows-msvc"}
    system = systems.get(platform.system(), "unknown-linux-gnu")
    return f"{arch}-{system}"


def _processor():
    """(model name, feature names) of the first processor; empty where the system does not tell."""
    fields = {}
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                name, _, value = line.partition(":")
                fields[name.strip()] = value.strip()
    except OSError:
        return platform.processor(), frozenset()
    names = ("vendor_id", "cpu family", "model", "stepping", "model name")
    model = " ".join(fields.get(name, "") for name in names)
    return model.strip(), frozenset((fields.get("flags") or fields.get("Features") or "").split())
