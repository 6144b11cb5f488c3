"""The older form of profiles, of `autograd.profiler`."""

import warnings

from flambeau.measure.events import from_spans
from flambeau.measure.recorder import Recorder, record_function

__all__ = ["emit_itt", "emit_nvtx", "profile", "record_function"]


class profile:  # noqa: N801 - PyTorch's name
    """Profiles a block; without `enabled` nothing happens.

    Args:
        use_cuda, use_device: a device; there is none, so a warning says that the CPU is profiled.
        record_shapes, profile_memory, with_stack, with_flops: also note shapes of inputs, bytes, calling
            lines of the program, counts of operations.

    >>> import flambeau as fl
    >>> with profile() as found:
    ...     y = fl.ones(3) + 1
    >>> found.key_averages()[-1].key
    'aten::add'
    """

    def __init__(
        self,
        enabled=True,
        *,
        use_cuda=False,
        use_device=None,
        record_shapes=False,
        with_flops=False,
        profile_memory=False,
        with_stack=False,
        with_modules=False,
        use_kineto=False,
        use_cpu=True,
        experimental_config=None,
        acc_events=False,
        custom_trace_id_callback=None,
        use_mtia=False,
        post_processing_timeout_s=None,
    ):
        self.enabled, self.use_cuda = enabled, use_cuda
        if enabled and (use_cuda or use_device not in (None, "cpu")):
            warnings.warn(
                "[autograd.profiler] there is no such device here, the CPU is profiled", stacklevel=2
            )
        self._options = record_shapes, profile_memory, with_stack, with_flops
        self._recorder = self.function_events = None

    def __enter__(self):
        if self.enabled:
            if self._recorder is not None:
                raise RuntimeError("[autograd.profiler] a profile is not reentrant: make a second one")
            self._recorder = Recorder(*self._options).__enter__()
        return self

    def __exit__(self, *error):
        if self.enabled:
            self._recorder.__exit__(*error)
            self.function_events = from_spans(self._recorder.spans, self._recorder.options)

    def _events(self):
        if self.function_events is None:
            raise AssertionError("[autograd.profiler] the profile has not ended (or was not enabled)")
        return self.function_events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Sums of events of one name; also of equal shapes of inputs, or of the same calling lines."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self):
        """All events in one sum."""
        return self._events().total_average()

    def table(self, *args, **kwargs):
        """The events as a table to print (see EventList.table)."""
        return self._events().table(*args, **kwargs)

    def export_chrome_trace(self, path):
        """Write the events as a file that chrome://tracing and Perfetto show."""
        self._events().export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write a line a stack, with the microseconds spent in it."""
        self._events().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self):
        """Microseconds of all events together."""
        return self._events().self_cpu_time_total

    def __iter__(self):
        return iter(self._events())

    def __str__(self):
        return "<unfinished profile>" if self.function_events is None else str(self.function_events)

    __repr__ = __str__


class _Inert:
    """Does nothing: the tool that it speaks to is for devices that are not here."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled = enabled

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class emit_nvtx(_Inert):  # noqa: N801
    """Does nothing: there are no CUDA devices whose profiler could be told."""


class emit_itt(_Inert):  # noqa: N801
    """Does nothing: VTune is not told."""
