"""PyTorch as the oracle. `make parity` asks for it (FLAMBEAU_PARITY=1): then a missing PyTorch is an error."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

if os.environ.get("FLAMBEAU_PARITY") == "1":
    import torch    # noqa: F401 - without it nothing here can be judged
else:
    pytest.importorskip("torch")
