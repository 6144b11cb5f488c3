"""Profiles: which ops a block calls, how often, how long each takes, how much memory.

>>> import flambeau as fl
>>> x = fl.rand(8, 8)
>>> with profile(record_shapes=True) as found:
...     for _ in range(3):
...         y = (x * 2).sum()
>>> [(event.key, event.count) for event in found.key_averages()]
[('aten::mul', 3), ('aten::sum', 3)]
"""

import enum
import os
import warnings

from flambeau.measure.events import from_spans
from flambeau.measure.recorder import Recorder, record_function
from flambeau.measure.trace_file import write_trace

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What is profiled; only the CPU is here."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What happens in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities():
    """{ProfilerActivity.CPU}."""
    return {ProfilerActivity.CPU}


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function from the number of a step to its action: after `skip_first` steps, over and over (`repeat`
    times; 0: without end), `wait` steps of nothing, `warmup` steps, `active` steps recorded, the last of
    them saved.

    With `skip_first_wait` not 0 the first cycle does not wait.

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise AssertionError(
            "[schedule] wait, warmup, repeat and skip_first are not negative, active is positive: got "
            f"{wait}, {warmup}, {repeat}, {skip_first}, {active}"
        )
    if warmup == 0:
        warnings.warn(
            "[schedule] without warmup the first recorded step also has what is done once", stacklevel=2
        )

    def action(step):
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for `on_trace_ready`: it writes each trace as a file of its own into a folder.

    Args:
        dir_name: the folder.
        worker_name: what files begin with; None: the host and the process.
        use_gzip: pack them.
    """

    def handle(profiler):
        import socket
        import time

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class profile:  # noqa: N801 - PyTorch's name
    """Profiles a block: the ops that this thread calls, backward passes node by node, steps of optimizers.

    Args:
        activities: what is profiled; the CPU, whatever is asked for.
        schedule: a function from the number of a step to its ProfilerAction, see `schedule`; None: all is
            recorded.
        on_trace_ready: function(profile), called when a recording has ended.
        record_shapes, profile_memory, with_stack, with_flops: also note shapes of inputs, bytes, calling
            lines of the program, counts of operations.
    """

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        use_cuda=None,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        self.activities = set(activities or {ProfilerActivity.CPU})
        if absent := sorted(each.name for each in self.activities if each is not ProfilerActivity.CPU):
            warnings.warn(
                f"[profile] {', '.join(absent)}: no such device here, the CPU is profiled", stacklevel=2
            )
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._steps = schedule is not None
        self.on_trace_ready, self.profile_memory = on_trace_ready, profile_memory
        self.record_shapes, self.with_stack, self.with_flops = record_shapes, with_stack, with_flops
        self.step_num, self.current_action = 0, self.schedule(0)
        self._recorder = self._found = self._step_name = None
        self._metadata = {}

    # ------------------------------------------------------------------ from step to step
    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self):
        """Begin, with the action of step 0."""
        self.current_action = self.schedule(self.step_num)
        if self.current_action in _RECORDING:
            self._begin()

    def stop(self):
        """End; what is being recorded is handed to `on_trace_ready`."""
        if self._recorder is not None:
            self._end(save=True)

    def step(self):
        """The next step of the schedule."""
        before = self.current_action
        self._end_step()
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if self._recorder is not None and (
            before is ProfilerAction.RECORD_AND_SAVE or self.current_action not in _RECORDING
        ):
            self._end(save=before is ProfilerAction.RECORD_AND_SAVE)
        if self.current_action in _RECORDING:
            if self._recorder is None:
                self._begin()
            else:
                self._begin_step()

    def _begin(self):
        self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops)
        self._recorder.__enter__()
        self._begin_step()

    def _begin_step(self):
        if self._steps:
            self._step_name = record_function(f"ProfilerStep#{self.step_num}")
            self._step_name.__enter__()

    def _end_step(self):
        if self._step_name is not None:
            self._step_name.__exit__()
            self._step_name = None

    def _end(self, save):
        self._end_step()
        recorder, self._recorder = self._recorder, None
        recorder.__exit__()
        self._found = from_spans(recorder.spans, recorder.options)
        if save and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # ------------------------------------------------------------------ what was found
    def events(self):
        """The events of the last recording, in the order in which they began."""
        if self._recorder is not None:
            return from_spans(self._recorder.spans, self._recorder.options)
        if self._found is None:
            raise AssertionError("[profile] nothing has been recorded (yet)")
        return self._found

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Sums of events of one name; also of equal shapes of inputs, or of the same calling lines."""
        events = self.events()
        merged = events.key_averages(group_by_input_shape, group_by_stack_n)
        for each in merged:
            if each.key.startswith("ProfilerStep#"):
                each.key = "ProfilerStep*"
        return merged if not self._steps else _merge_steps(merged)

    def export_chrome_trace(self, path):
        """Write the events as a file that chrome://tracing and Perfetto show; packed if its name ends in
        .gz."""
        write_trace(path, self.events(), self._metadata)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write a line a stack (`with_stack=True`), with the microseconds spent in it."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key, value):
        """A text to be written into traces."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key, value):
        """A value in JSON to be written into traces."""
        import json

        self._metadata[key] = json.loads(value)

    def toggle_collection_dynamic(self, enable, activities):
        """Refused."""
        raise NotImplementedError("[profile] a recording is not interrupted\n  hint: use two profiles")


def _merge_steps(events):
    """Sums with the same key joined."""
    merged = {}
    for each in events:
        key = (each.key, str(each.input_shapes), tuple(each.stack))
        if key in merged:
            merged[key].add(each)
        else:
            merged[key] = each
    events[:] = merged.values()
    return events
