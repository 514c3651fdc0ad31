"""Likelihoods of labels given latent values.

To add one, write a file with a frozen dataclass ``class Mine(Likelihood, name="mine")`` that
defines ``log_density``, import it here, and add an instance to the contract in
``tests/likelihoods/test_contract.py``. Override other methods to replace quadrature.
"""

from sparsegp.likelihoods.base import LIKELIHOODS as LIKELIHOODS
from sparsegp.likelihoods.base import Likelihood as Likelihood
from sparsegp.likelihoods.gaussian import Gaussian as Gaussian
from sparsegp.likelihoods.logistic import Logistic as Logistic
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit as MultinomialProbit
from sparsegp.likelihoods.ordered_probit import OrderedProbit as OrderedProbit
from sparsegp.likelihoods.probit import Probit as Probit
from sparsegp.likelihoods.sites import SiteRule as SiteRule
from sparsegp.likelihoods.softmax import Softmax as Softmax
