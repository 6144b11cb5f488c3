"""What importlib.metadata says of a package that the facade stands for."""

import importlib
import importlib.metadata
import importlib.util
import os


class ServedPackage(importlib.metadata.Distribution):
    """Name and version of a package as programs see it that ask what is installed."""

    def __init__(self, served, real):
        self.served, self.real = served, real

    def read_text(self, filename):
        if filename != "METADATA":
            return None
        version = importlib.import_module(self.real).__version__
        return f"Metadata-Version: 2.1\nName: {self.served}\nVersion: {version}\n"

    def locate_file(self, path):
        return os.path.join(os.path.dirname(importlib.util.find_spec(self.real).origin), path)
