"""Special functions (the names of torch.special)."""

from flambeau.ops import special_bessel as _bessel, special_polynomials as _polynomials
from flambeau.ops.activation import sigmoid as expit
from flambeau.ops.arithmetic import logit, sinc, xlog1py, xlogy
from flambeau.ops.mathematics import erf, erfc, exp2, expm1, log1p
from flambeau.ops.normalize import log_softmax, logsumexp, softmax
from flambeau.ops.rounding import round
from flambeau.ops.special import (
    _special_entr as entr, _special_erfcx as erfcx, _special_log_ndtr as log_ndtr, _special_ndtr as ndtr,
    _special_ndtri as ndtri, _special_spherical_bessel_j0 as spherical_bessel_j0, digamma, erfinv, lgamma as
    gammaln,
    mvlgamma as multigammaln, polygamma)
from flambeau.ops.special_bessel import _special_i0e as i0e, _special_i1 as i1, _special_i1e as i1e, i0
from flambeau.ops.special_host import _special_zeta as zeta, igamma as gammainc, igammac as gammaincc

psi = digamma
modified_bessel_i0, modified_bessel_i1 = i0, i1
for _module in (_bessel, _polynomials):
    for _name, _function in list(vars(_module).items()):
        if _name.startswith("_special_") and _name.removeprefix("_special_") not in globals():
            globals()[_name.removeprefix("_special_")] = _function

__all__ = sorted(_name for _name in globals() if not _name.startswith("_"))
