"""Reading and writing picture files."""

from flambeau.vision._lazy import lazy

_IMAGE = ("ImageReadMode", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "decode_webp",
          "encode_jpeg",
          "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png")
_REFUSED = dict.fromkeys(("read_video", "write_video", "VideoReader", "read_video_timestamps"),
                         "there is no video decoder")

__getattr__, __dir__ = lazy(__name__, {"image": _IMAGE}, refused=_REFUSED)
