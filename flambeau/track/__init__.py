"""Values of a run written down, for TensorBoard and other readers of its event files."""

from flambeau.track.files import EventFile, read_events, read_scalars
from flambeau.track.writer import FileWriter, SummaryWriter

__all__ = ["EventFile", "FileWriter", "SummaryWriter", "read_events", "read_scalars"]
