"""Reductions and normalisations of the elements that a mask keeps."""

from flambeau.ops.masked import *       # noqa: F403
from flambeau.ops.masked import __all__     # noqa: F401
