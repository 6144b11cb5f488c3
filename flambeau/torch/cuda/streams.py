"""torch.cuda.streams"""

from flambeau.torch._streams import Event, Stream, StreamContext, current_stream

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext", "current_stream"]

ExternalStream = Stream
