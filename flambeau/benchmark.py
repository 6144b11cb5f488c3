"""Timings of statements, compared in tables."""

from flambeau.measure.compare import Compare
from flambeau.measure.fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from flambeau.measure.measurement import Measurement, TaskSpec, select_unit, trim_sigfig, unit_to_english
from flambeau.measure.timer import Language, Timer, timer

__all__ = [
    "Compare",
    "FuzzedParameter",
    "FuzzedTensor",
    "Fuzzer",
    "Language",
    "Measurement",
    "ParameterAlias",
    "TaskSpec",
    "Timer",
    "select_unit",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
