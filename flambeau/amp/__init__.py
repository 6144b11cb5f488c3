"""Mixed precision: `autocast` chooses dtypes op by op, `GradScaler` keeps small gradients alive in float16.

>>> model, x, target = fl.nn.Linear(3, 2), fl.ones(4, 3), fl.zeros(4, 2)
>>> with fl.amp.autocast("cpu", dtype=fl.bfloat16):
...     loss = fl.nn.functional.mse_loss(model(x), target)
>>> loss.backward()
>>> loss.dtype, model.weight.grad.dtype
(flambeau.float32, flambeau.float32)
"""

from flambeau.amp.casting import autocast, is_autocast_available
from flambeau.amp.functions import custom_bwd, custom_fwd
from flambeau.amp.scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
