"""Profiles of programs: which ops, how often, how long."""

from flambeau.measure.profiler import *     # noqa: F403
from flambeau.measure.profiler import __all__       # noqa: F401
