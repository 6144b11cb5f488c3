"""torch._dynamo.testing: a backend that counts; it is never called, so it counts nothing."""


class CompileCounter:
    """Counts of compiled frames and ops: 0."""

    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        return gm

    def clear(self):
        """Back to 0."""
        self.frame_count = self.op_count = 0
