"""torch.backends.quantized: no engine; the switch is kept."""

engine = "none"
supported_engines = ["none"]
