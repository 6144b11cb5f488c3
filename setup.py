"""Builds the native heart (Cython) and, for a real installation, the pack of common kernels.

Everything else that setuptools needs stands in pyproject.toml.
"""

import os
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build import build

RUNTIME = Path("flambeau") / "runtime"
PACK_FOLDER = Path("flambeau") / "compiler" / "packed"
PACK_TIMEOUT_S = 900


def extension(name):
    """The extension module flambeau.runtime.<name>, built again when any part of the folder changes."""
    parts = sorted(str(path) for pattern in ("*.pxi", "*.pxd", "[!_]*.h") for path in RUNTIME.glob(pattern))
    return Extension(
        f"flambeau.runtime.{name}",
        sources=[str(RUNTIME / f"{name}.pyx")],
        depends=parts,
        include_dirs=[str(RUNTIME)],
        # no -march=native: a wheel may move to another processor; no fused products but the written ones
        extra_compile_args=["-O2", "-pthread", "-fno-math-errno", "-ffp-contract=off"],
        extra_link_args=["-pthread"],
        optional=name == "library",     # a system without ELF objects loads kernels through LLVM
    )


class Build(build):
    """setuptools' build, then the kernel pack.

    An editable installation runs only the sub-commands of `build`, so it makes no pack; `flambeau pack` does.
    """

    def run(self):
        super().run()
        self.build_kernel_pack()

    def build_kernel_pack(self):
        """Compile the common kernels with the package just built. A failure costs only time at first use."""
        built = os.path.abspath(self.build_lib)
        output = os.path.join(built, PACK_FOLDER)
        search_path = os.pathsep.join(filter(None, (built, os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "flambeau.cli.pack", output]
        try:
            subprocess.run(command, check=True, cwd=built, timeout=PACK_TIMEOUT_S,
                           env=dict(os.environ, PYTHONPATH=search_path))
        except (OSError, subprocess.SubprocessError) as error:
            self.warn(f"the kernel pack was not built ({error}); kernels will be compiled at first use")


setup(
    ext_modules=cythonize(
        [extension("_core"), extension("library")],
        include_path=[str(RUNTIME)],
        build_dir=os.path.join("build", "cython"),      # the generated C stays out of the source folder
        compiler_directives={"language_level": "3"},
    ),
    cmdclass={"build": Build},
)
