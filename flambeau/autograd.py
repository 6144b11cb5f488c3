"""Gradients: `backward`, `grad`, the modes of recording, the graph and its faults."""

from flambeau.nn.utils.doctor import diagnose
from flambeau.tensor import graph
from flambeau.tensor.anomaly import (detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled,
                                     set_detect_anomaly)
from flambeau.tensor.autograd import (backward, enable_grad, grad, inference_mode, is_grad_enabled, no_grad,
                                      set_grad_enabled)
from flambeau.tensor.draw import draw
from flambeau.tensor.explain import explain
from flambeau.tensor.function import Function, once_differentiable
from flambeau.transform import autograd_functions as functional, dual_tensors as forward_ad
from flambeau.transform.gradcheck import GradcheckError, gradcheck, gradgradcheck
from flambeau.transform.checkpoint import checkpoint, checkpoint_sequential

__all__ = ["Function", "GradcheckError", "backward", "checkpoint", "checkpoint_sequential",
           "detect_anomaly", "diagnose", "draw", "enable_grad", "explain", "forward_ad", "functional", "grad",
           "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
           "is_grad_enabled", "no_grad", "once_differentiable", "set_detect_anomaly",
           "set_grad_enabled"]
