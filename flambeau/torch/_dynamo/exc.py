"""torch._dynamo.exc: errors of a capture that is not there, to be named in `except`."""

from flambeau.torch._compiled import InvalidBackend


class TorchDynamoException(RuntimeError):
    """Never raised here."""


class InternalTorchDynamoError(TorchDynamoException):
    """Never raised here."""


class BackendCompilerFailed(TorchDynamoException):
    """Never raised here."""


class Unsupported(TorchDynamoException):
    """Never raised here."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """Never raised here."""
