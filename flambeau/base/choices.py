"""What holds for the whole process and is chosen before anything is loaded."""


class Names:
    """The module that public classes say they are from: `torch` where the facade is served under that name."""

    module = "flambeau"


names = Names()


class Stream:
    """Where random numbers come from: `pytorch` is true where draws are PyTorch's (see tensor/rng.py)."""

    pytorch = False


chosen = Stream()


def set_stream(name):
    """Choose the stream of this process: 'counter' or 'pytorch'."""
    if name not in ("counter", "pytorch"):
        raise ValueError(f"the streams of random numbers are 'counter' and 'pytorch', got {name!r}")
    chosen.pytorch = name == "pytorch"
