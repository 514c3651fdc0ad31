"""Likelihoods of labels given latent values.

To add one, write a file with a frozen dataclass ``class Mine(Likelihood, name="mine")`` that
defines ``start`` and ``log_density``, import it here, and add an instance to the contract in
``tests/likelihoods/test_contract.py``. Whatever else it defines replaces quadrature.
"""

from sparsegp.likelihoods.base import LIKELIHOODS, Likelihood, Moments
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.logistic import Logistic
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.ordered_probit import OrderedProbit
from sparsegp.likelihoods.parse import parse as parse_likelihood
from sparsegp.likelihoods.probit import Probit
from sparsegp.likelihoods.sites import RULES, SiteRule, Sites
from sparsegp.likelihoods.softmax import Softmax

__all__ = [
    "LIKELIHOODS",
    "RULES",
    "Gaussian",
    "Likelihood",
    "Logistic",
    "Moments",
    "MultinomialProbit",
    "OrderedProbit",
    "Probit",
    "SiteRule",
    "Sites",
    "Softmax",
    "parse_likelihood",
]
