"""distributions: probability distributions, transforms, constraints and divergences, with PyTorch's names.

    from flambeau.distributions import Normal, kl_divergence
    p = Normal(loc, scale)
    x = p.rsample()                 # gradients flow into loc and scale
    loss = -p.log_prob(target).mean() + kl_divergence(p, Normal(0.0, 1.0)).mean()
"""

from flambeau.distributions import constraints, kl_pairs, transforms, utils  # noqa: F401
from flambeau.distributions.beta import Beta, Dirichlet, Kumaraswamy
from flambeau.distributions.binary import Bernoulli, ContinuousBernoulli, Geometric
from flambeau.distributions.categorical import (Categorical, Multinomial, OneHotCategorical,
                                                OneHotCategoricalStraightThrough)
from flambeau.distributions.circular import VonMises
from flambeau.distributions.constraint_registry import biject_to, transform_to
from flambeau.distributions.counts import Binomial, NegativeBinomial, Poisson
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.gamma import Chi2, Exponential, FisherSnedecor, Gamma, InverseGamma
from flambeau.distributions.heavy_tailed import Cauchy, Gumbel, HalfCauchy, Laplace, StudentT, Uniform
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.matrices import LKJCholesky, Wishart
from flambeau.distributions.mixture import MixtureSameFamily
from flambeau.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from flambeau.distributions.normal import HalfNormal, LogisticNormal, LogNormal, Normal
from flambeau.distributions.pareto import GeneralizedPareto, Pareto, Weibull
from flambeau.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from flambeau.distributions.transformed import Independent, TransformedDistribution
from flambeau.distributions.transforms import *     # noqa: F403 - the names of transforms.__all__

__all__ = sorted({name for name, value in list(globals().items())
                  if isinstance(value, type) and issubclass(value, Distribution)}
                 | set(transforms.__all__) - {"InverseTransform"}
                 | {"biject_to", "kl_divergence", "register_kl", "transform_to"})
