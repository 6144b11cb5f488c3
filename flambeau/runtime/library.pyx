# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Our own loader of compiled kernels: ELF x86-64 relocatable objects, as LLVM writes them, into memory.

    load_object(data, ["add_f32"]) -> {"add_f32": address}

Sections are copied into fresh pages, relocated there, and the pages made executable and read-only; they stay
mapped for ever. Functions of the C library that a kernel calls (fma, memcpy, ...) are found by dlsym and
reached through small stubs. Anything that this page does not know raises `LoadError`: the caller then takes
LLVM's loader.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memcmp, memset

import threading

cdef extern from "<elf.h>" nogil:
    ctypedef struct Elf64_Ehdr:
        unsigned char *e_ident
        uint16_t e_type, e_machine, e_shentsize, e_shnum, e_shstrndx
        uint64_t e_shoff
    ctypedef struct Elf64_Shdr:
        uint32_t sh_name, sh_type, sh_link, sh_info
        uint64_t sh_flags, sh_offset, sh_size, sh_addralign, sh_entsize
    ctypedef struct Elf64_Sym:
        uint32_t st_name
        unsigned char st_info, st_other
        uint16_t st_shndx
        uint64_t st_value, st_size
    ctypedef struct Elf64_Rela:
        uint64_t r_offset, r_info
        int64_t r_addend

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int mprotect(void *address, size_t length, int protection)
    int munmap(void *address, size_t length)
    int PROT_READ, PROT_WRITE, PROT_EXEC, MAP_PRIVATE, MAP_ANONYMOUS
    void *MAP_FAILED

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *name, int flags)
    void *dlsym(void *handle, const char *name)
    int RTLD_LAZY

cdef extern from "<unistd.h>" nogil:
    long sysconf(int name)
    int _SC_PAGESIZE

cdef enum:
    TYPE_RELOCATABLE = 1
    MACHINE_X86_64 = 62
    SECTION_SYMBOLS = 2
    SECTION_RELA = 4
    SECTION_EMPTY = 8               # .bss
    SECTION_REL = 9
    FLAG_WRITE = 1
    FLAG_ALLOCATE = 2
    INDEX_UNDEFINED = 0
    INDEX_ABSOLUTE = 0xFFF1
    INDEX_RESERVED = 0xFF00
    STUB_SIZE = 16                  # jmp *2(%rip); ud2; the address
    MAX_IMAGE = 1 << 30

cdef enum:
    R_64 = 1
    R_PC32 = 2
    R_PLT32 = 4
    R_GOTPCREL = 9
    R_32 = 10
    R_32S = 11
    R_PC64 = 24
    R_GOTPCRELX = 41
    R_REX_GOTPCRELX = 42


class LoadError(OSError):
    """An object that this loader cannot load; the message says why."""


cdef object _LOCK = threading.Lock()
cdef dict _EXTERNAL = {}            # symbol name -> address
cdef void *_LIBM = NULL
cdef long _MAPPED = 0               # bytes mapped so far


def mapped_bytes():
    """Bytes of memory that loaded kernels occupy."""
    return _MAPPED


def check_object(bytes data not None):
    """LoadError unless `data` is, as far as its headers tell, a whole x86-64 relocatable object."""
    _Image(data)


def load_object(bytes data not None, names):
    """Load the relocatable object `data`; return {name: address} for the functions `names`.

    LoadError if it is not an x86-64 ELF object, is damaged, uses an unknown kind of relocation or calls a
    function that no loaded library has.
    """
    with _LOCK:
        image = _Image(data)
        try:
            image.place_sections()
            image.relocate()
            addresses = image.find(names)
            image.seal()
        except BaseException:
            image.discard()
            raise
    return addresses


cdef uint64_t _align(uint64_t offset, uint64_t alignment):
    return (offset + alignment - 1) & ~(alignment - 1)


cdef void *_external(str name) except NULL:
    """The address of a function of the C library or of libm."""
    global _LIBM
    cdef void *address
    if name in _EXTERNAL:
        return <void *><uintptr_t>_EXTERNAL[name]
    encoded = name.encode()
    address = dlsym(NULL, encoded)
    if address == NULL:
        if _LIBM == NULL:
            _LIBM = dlopen("libm.so.6", RTLD_LAZY)
        if _LIBM != NULL:
            address = dlsym(_LIBM, encoded)
    if address == NULL:
        raise LoadError(f"[library] the object calls {name}, which no loaded library has")
    _EXTERNAL[name] = <uintptr_t>address
    return address


cdef class _Image:
    """One object on its way into memory."""

    cdef bytes data                 # kept alive: `file` points into it
    cdef const unsigned char *file
    cdef uint64_t length
    cdef const Elf64_Shdr *sections
    cdef int section_count
    cdef const Elf64_Sym *symbols
    cdef uint64_t symbol_count
    cdef const char *strings
    cdef uint64_t strings_size
    cdef unsigned char *memory      # the mapping
    cdef uint64_t size
    cdef uint64_t used              # end of what is placed: stubs and table entries come after it
    cdef dict offsets               # section number -> offset in memory
    cdef dict stubs                 # symbol number -> offset of its stub
    cdef dict slots                 # symbol number -> offset of its address (a one-entry table)

    def __cinit__(self, bytes data):
        self.data, self.length = data, len(data)
        self.file = data
        self.memory = NULL
        self.offsets, self.stubs, self.slots = {}, {}, {}
        self._read_header()
        self._read_symbols()

    cdef int _require(self, bint condition, str what) except -1:
        if not condition:
            raise LoadError(f"[library] not a loadable object: {what}")
        return 0

    cdef int _inside(self, uint64_t offset, uint64_t size) except -1:
        return self._require(offset <= self.length and size <= self.length - offset, "it is cut short")

    cdef int _read_header(self) except -1:
        cdef const Elf64_Ehdr *header = <const Elf64_Ehdr *>self.file
        self._require(self.length >= sizeof(Elf64_Ehdr) and memcmp(self.file, b"\x7fELF\x02\x01", 6) == 0,
                      "no 64 bit little-endian ELF file")
        self._require(header.e_type == TYPE_RELOCATABLE and header.e_machine == MACHINE_X86_64,
                      f"type {header.e_type} for machine {header.e_machine}, wanted a relocatable x86-64 one")
        self._require(header.e_shentsize == sizeof(Elf64_Shdr) and header.e_shoff % 8 == 0,
                      "odd section headers")
        self._inside(header.e_shoff, <uint64_t>header.e_shnum * sizeof(Elf64_Shdr))
        self.sections = <const Elf64_Shdr *>(self.file + header.e_shoff)
        self.section_count = header.e_shnum
        for number in range(self.section_count):
            if self.sections[number].sh_type != SECTION_EMPTY:
                self._inside(self.sections[number].sh_offset, self.sections[number].sh_size)
        return 0

    cdef int _read_symbols(self) except -1:
        cdef const Elf64_Shdr *section
        cdef const Elf64_Shdr *names
        self.symbol_count = 0
        for number in range(self.section_count):
            section = &self.sections[number]
            if section.sh_type != SECTION_SYMBOLS:
                continue
            self._require(section.sh_link < <uint32_t>self.section_count and section.sh_offset % 8 == 0,
                          "odd symbols")
            names = &self.sections[section.sh_link]
            self._require(names.sh_type != SECTION_EMPTY and names.sh_size > 0
                          and self.file[names.sh_offset + names.sh_size - 1] == 0, "odd symbol names")
            self.symbols = <const Elf64_Sym *>(self.file + section.sh_offset)
            self.symbol_count = section.sh_size // sizeof(Elf64_Sym)
            self.strings = <const char *>(self.file + names.sh_offset)
            self.strings_size = names.sh_size
            return 0
        raise LoadError("[library] not a loadable object: it has no symbols")

    cdef str _name(self, uint64_t symbol):
        cdef uint64_t start = self.symbols[symbol].st_name
        self._require(start < self.strings_size, "a symbol name lies outside")
        return (<bytes>(self.strings + start)).decode("utf-8", "replace")

    # ------------------------------------------------------------------ placing
    def place_sections(self):
        """Map pages and copy every section that belongs in memory."""
        global _MAPPED
        cdef const Elf64_Shdr *section
        cdef uint64_t total = 0, undefined = 0, page = sysconf(_SC_PAGESIZE)
        for number in range(self.section_count):
            section = &self.sections[number]
            if not section.sh_flags & FLAG_ALLOCATE or section.sh_size == 0:
                continue
            name = f"section {number}"
            self._require(not section.sh_flags & FLAG_WRITE, f"{name} holds variables, and kernels have none")
            self._require(section.sh_addralign <= page and section.sh_size < MAX_IMAGE
                          and section.sh_addralign & (section.sh_addralign - 1) == 0,
                          f"{name} has an odd size")
            total = _align(total, section.sh_addralign or 1)
            self.offsets[number] = total
            total += section.sh_size
            self._require(total < MAX_IMAGE, "it is too large")
        self.used = _align(total, STUB_SIZE)
        # every symbol may need a stub and an address of its own
        self.size = _align(self.used + self.symbol_count * (STUB_SIZE + 8) + 1, page)
        self.memory = <unsigned char *>mmap(NULL, self.size, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        if self.memory == <unsigned char *>MAP_FAILED:
            self.memory = NULL
            raise MemoryError("[library] no memory for a kernel")
        _MAPPED += self.size
        for number, offset in self.offsets.items():
            section = &self.sections[<int>number]
            if section.sh_type != SECTION_EMPTY:
                memcpy(self.memory + <uint64_t>offset, self.file + section.sh_offset, section.sh_size)

    def seal(self):
        """From here on the pages can be executed and not written."""
        if mprotect(self.memory, self.size, PROT_READ | PROT_EXEC) != 0:
            raise LoadError("[library] the system refuses to make memory executable")

    def discard(self):
        """Unmap what was placed."""
        global _MAPPED
        if self.memory != NULL:
            munmap(self.memory, self.size)
            _MAPPED -= self.size
            self.memory = NULL

    # ------------------------------------------------------------------ relocating
    def relocate(self):
        """Apply every relocation of every placed section."""
        cdef const Elf64_Shdr *section
        cdef const Elf64_Rela *entries
        for number in range(self.section_count):
            section = &self.sections[number]
            if section.sh_type not in (SECTION_RELA, SECTION_REL) or section.sh_info not in self.offsets:
                continue
            self._require(section.sh_type == SECTION_RELA and section.sh_offset % 8 == 0,
                          "relocations without addends")
            entries = <const Elf64_Rela *>(self.file + section.sh_offset)
            for position in range(section.sh_size // sizeof(Elf64_Rela)):
                self._apply(&entries[<uint64_t>position], section.sh_info)

    cdef int _apply(self, const Elf64_Rela *entry, uint32_t section) except -1:
        cdef uint64_t symbol = entry.r_info >> 32
        cdef uint32_t kind = entry.r_info & 0xFFFFFFFF
        cdef int width = 8 if kind in (R_64, R_PC64) else 4
        cdef uint64_t section_size = self.sections[section].sh_size
        cdef unsigned char *place
        cdef int64_t value
        self._require(symbol < self.symbol_count, "a relocation names no symbol")
        self._require(entry.r_offset <= section_size and section_size - entry.r_offset >= <uint64_t>width,
                      "a relocation lies outside its section")
        place = self.memory + <uint64_t>self.offsets[section] + entry.r_offset
        if kind in (R_64, R_32, R_32S):
            value = <int64_t>self._address(symbol) + entry.r_addend
        elif kind in (R_PC32, R_PLT32, R_PC64):
            value = <int64_t>self._near(symbol) + entry.r_addend - <int64_t><uintptr_t>place
        elif kind in (R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX):
            value = <int64_t>self._slot(symbol) + entry.r_addend - <int64_t><uintptr_t>place
        else:
            raise LoadError(f"[library] unknown kind of relocation: {kind} (of {self._name(symbol)})")
        return self._write(place, value, kind, width)

    cdef int _write(self, unsigned char *place, int64_t value, uint32_t kind, int width) except -1:
        cdef int32_t narrow
        if width == 8:
            memcpy(place, &value, 8)
            return 0
        if kind == R_32:
            fits = 0 <= value <= 0xFFFFFFFF
        else:
            fits = -0x80000000 <= value <= 0x7FFFFFFF
        self._require(fits, f"a relocation of kind {kind} does not reach its target")
        narrow = <int32_t>value
        memcpy(place, &narrow, 4)
        return 0

    cdef uint64_t _address(self, uint64_t symbol) except 0:
        """Where symbol number `symbol` is."""
        cdef const Elf64_Sym *entry = &self.symbols[symbol]
        if entry.st_shndx == INDEX_UNDEFINED:
            return <uintptr_t>_external(self._name(symbol))
        self._require(entry.st_shndx < INDEX_RESERVED and entry.st_shndx in self.offsets,
                      f"symbol {self._name(symbol)} lies in no placed section")
        self._require(entry.st_value <= self.sections[entry.st_shndx].sh_size,
                      "a symbol lies outside its section")
        return <uintptr_t>self.memory + <uint64_t>self.offsets[entry.st_shndx] + entry.st_value

    cdef uint64_t _near(self, uint64_t symbol) except 0:
        """As `_address`, but within 2 GB of the image: functions of other libraries get a stub."""
        cdef uint64_t target = self._address(symbol)
        cdef unsigned char *stub
        if self.symbols[symbol].st_shndx != INDEX_UNDEFINED:
            return target
        if symbol not in self.stubs:
            stub = self.memory + self.used
            memcpy(stub, b"\xff\x25\x02\x00\x00\x00\x0f\x0b", 8)
            memcpy(stub + 8, &target, 8)
            self.stubs[symbol] = self.used
            self.used += STUB_SIZE
        return <uintptr_t>self.memory + <uint64_t>self.stubs[symbol]

    cdef uint64_t _slot(self, uint64_t symbol) except 0:
        """The address of eight bytes that hold the symbol's address."""
        cdef uint64_t target = self._address(symbol)
        if symbol not in self.slots:
            memcpy(self.memory + self.used, &target, 8)
            self.slots[symbol] = self.used
            self.used += 8
        return <uintptr_t>self.memory + <uint64_t>self.slots[symbol]

    # ------------------------------------------------------------------ symbols
    def find(self, names):
        """{name: address} of functions that the object defines."""
        wanted, found = set(names), {}
        for symbol in range(1, self.symbol_count):
            if self.symbols[<uint64_t>symbol].st_shndx == INDEX_UNDEFINED:
                continue
            name = self._name(symbol)
            if name in wanted:
                found[name] = self._address(symbol)
        missing = wanted - found.keys()
        if missing:
            raise LoadError(f"[library] the object does not define {', '.join(sorted(missing))}")
        return found
