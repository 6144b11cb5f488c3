"""torch.backends.xnnpack: not in use; Flambeau generates its kernels."""

enabled = False
