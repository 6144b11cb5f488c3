"""SummaryWriter: values of a run, written as event files that TensorBoard shows.

>>> import tempfile
>>> from flambeau.track import SummaryWriter, read_scalars
>>> folder = tempfile.TemporaryDirectory()
>>> with SummaryWriter(folder.name) as writer:
...     for step in range(3):
...         writer.add_scalar("loss", 1 / 2 ** step, step)
>>> read_scalars(folder.name)
{'loss': [(0, 1.0), (1, 0.5), (2, 0.25)]}
>>> folder.cleanup()
"""

import os
import socket
import time

from flambeau.base.lazy import LazyModule
from flambeau.track import embedding, summary
from flambeau.track.files import EventFile

__all__ = ["FileWriter", "SummaryWriter"]

numpy = LazyModule("numpy")


class FileWriter:
    """Writes events and summaries, dicts or protocol buffers, into one event file.

    Args:
        log_dir: its folder; made if it is not there.
        max_queue, flush_secs: how many events, and how many seconds, may wait to be written.
        filename_suffix: put behind the file's name.
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self._options = (str(log_dir), max_queue, flush_secs, filename_suffix)
        self.event_writer = EventFile(*self._options)

    def get_logdir(self):
        """The folder."""
        return self._options[0]

    def add_event(self, event, step=None, walltime=None):
        """Write an event, a dict of the fields of `Event` (see `messages`)."""
        event = {
            "wall_time": time.time() if walltime is None else float(walltime),
            "step": None if step is None else int(step),
            **event,
        }
        self.event_writer.add(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        """Write a summary: what the functions of `summary` return, or a protocol buffer."""
        self.add_event({"summary": summary}, global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """Write a graph: what `graph.model_graph` returns."""
        graph, metadata = graph_profile
        self.add_event({"graph_def": graph}, None, walltime)
        self.add_event({"tagged_run_metadata": {"tag": "step1", "run_metadata": metadata}}, None, walltime)

    def flush(self):
        """Write what waits."""
        self.event_writer.flush()

    def close(self):
        """Write what waits; the file is done."""
        self.event_writer.close()

    def reopen(self):
        """Go on in a new file."""
        self.close()
        self.event_writer = EventFile(*self._options)


class SummaryWriter:
    """Writes values of a run into event files in `log_dir`.

    A `tag` names a curve or panel ("loss/train": what stands before "/" groups them); `global_step` is the
    place on its axis, `walltime` the time in seconds since 1970 if it is not now. Values are tensors, NumPy
    arrays or numbers. Event files hold numbers as float32 unless said otherwise.

    Args:
        log_dir: the folder; None: runs/<date>_<time>_<host><comment>.
        comment: part of that name.
        purge_step: a run that goes on after a crash says so: TensorBoard drops events of its folder from
            there on.
        max_queue, flush_secs: how many events, and how many seconds, may wait to be written.
        filename_suffix: put behind the names of files.
    """

    def __init__(
        self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""
    ):
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S_") + socket.gethostname() + comment)
        self.log_dir, self.purge_step = str(log_dir), purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer = self.all_writers = self._default_bins = None
        self._get_file_writer()

    def _open(self, folder):
        if self.all_writers is None:
            self.all_writers = {}
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(
                folder, self.max_queue, self.flush_secs, self.filename_suffix
            )
        return self.all_writers[folder]

    def _get_file_writer(self):
        """The writer of `log_dir`; a new one after `close`."""
        if self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            if self.purge_step is not None:
                start = {"session_log": {"status": 1}}
                self.file_writer.add_event({"file_version": "brain.Event:2"}, self.purge_step)
                self.file_writer.add_event(start, self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _add(self, made, global_step, walltime):
        self._get_file_writer().add_summary(made, global_step, walltime)

    def get_logdir(self):
        """The folder that event files are written to."""
        return self.log_dir

    # ------------------------------------------------------------------ numbers
    def add_scalar(
        self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False
    ):
        """Add a number to a curve. `new_style` writes it as a tensor, `double_precision` then in float64."""
        self._add(summary.scalar(tag, scalar_value, None, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Add numbers to curves in one panel; each has an event file in a folder of its own.

        Args:
            tag_scalar_dict: name of the curve -> number.
        """
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            self._open(folder).add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """Add a tensor as it is."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    @property
    def default_bins(self):
        """The limits of the buckets of `bins="tensorflow"`."""
        if self._default_bins is None:
            self._default_bins = summary.default_limits()
        return self._default_bins

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """Add the distribution of `values`.

        Args:
            bins: "tensorflow" (limits that grow by a tenth), a rule of numpy.histogram_bin_edges, or limits.
        """
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag,
        min,
        max,
        num,
        sum,
        sum_squares,
        bucket_limits,
        bucket_counts,
        global_step=None,
        walltime=None,
    ):
        """Add a distribution that is counted already: a bucket ends at its limit."""
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_pr_curve(
        self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None
    ):
        """Add precision and recall at thresholds, of `labels` (0 or 1) and `predictions` (from 0 to 1)."""
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """The same, counted already, a value a threshold."""
        made = summary.pr_curve_raw(
            tag,
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
            num_thresholds,
            weights,
        )
        self._add(made, global_step, walltime)

    # ------------------------------------------------------------------ pictures, sound, text
    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """Add a picture: floats from 0 to 1, or uint8; `dataformats` names its axes (CHW, HWC, HW)."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Add pictures as a grid, eight in a row."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag,
        img_tensor,
        box_tensor,
        global_step=None,
        walltime=None,
        rescale=1,
        dataformats="CHW",
        labels=None,
    ):
        """Add a picture with boxes (n, 4: left, top, right, bottom in pixels) outlined and named by
        `labels`."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """Add a matplotlib figure, or a list of them side by side; `close` closes them."""
        picture = summary.figure_array(figure, close)
        self._add(
            summary.image(tag, picture, dataformats="CHW" if picture.ndim == 3 else "NCHW"),
            global_step,
            walltime,
        )

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Add moving pictures (batch, time, channels, height, width) as a GIF; needs Pillow."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Add sound: samples from -1 to 1, one channel."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Add text, shown as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_mesh(
        self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None
    ):
        """Add points in space (batch, n, 3), with colours (0 to 255) and triangles (numbers of points)."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # ------------------------------------------------------------------ models and runs
    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Add the ops of `model(*input_to_model)`, in boxes of modules; the model runs once, without
        gradients.

        Args:
            model: a Module.
            input_to_model: a tensor, or a tuple of arguments.
            verbose: print the nodes.
        """
        from flambeau.track.graph import model_graph

        inputs = () if input_to_model is None else input_to_model
        inputs = tuple(inputs) if isinstance(inputs, list) else inputs
        self._get_file_writer().add_graph(model_graph(model, inputs, verbose))

    def add_onnx_graph(self, prototxt):
        """Refused: there is no reader of ONNX files."""
        raise NotImplementedError(
            "[add_onnx_graph] ONNX files are not read\n"
            "  hint: add_graph(model, inputs) draws the model itself"
        )

    def add_embedding(
        self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None
    ):
        """Add points (n, d) for the projector.

        Args:
            metadata: n labels, or with `metadata_header`, the names of columns, n rows of labels.
            label_img: pictures (n, channels, height, width).
        """
        embedding.write_embedding(
            self._get_file_writer().get_logdir(), mat, metadata, label_img, global_step, tag, metadata_header
        )

    def add_hparams(
        self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None
    ):
        """Add hyperparameters and what came of them, as a run of its own in a folder below.

        Args:
            hparam_dict: name -> bool, str, number or one-element tensor.
            metric_dict: tag -> number.
            hparam_domain_discrete: name -> the values that it may have.
            run_name: the folder's name; None: the time.
        """
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        writer = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        for each in made:
            writer.add_summary(each, global_step)
        for tag, value in metric_dict.items():
            writer.add_summary(summary.scalar(tag, value), global_step)
        writer.close()

    def add_custom_scalars(self, layout):
        """Say which curves stand in one chart: {category: {title: ["Multiline" or "Margin", [tags]]}}."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """Put the curves of `tags` into one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """Draw a curve with a margin: `tags` are those of the value, the lower and the upper bound."""
        if len(tags) != 3:
            raise AssertionError(f"[add_custom_scalars_marginchart] three tags: got {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # ------------------------------------------------------------------ the end
    def flush(self):
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Write what waits; a value added later opens a new file."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
