"""Gaussian sites that stand for likelihood terms."""

from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.types import Doubles, Integers


def variational_site(likelihood: MultinomialProbit, mean: Doubles, target: Integers) -> Doubles:
    """Return p, the distance of the site mean from the latent mean (GR eq. 4.3 and 4.4).

    The variational posterior of the auxiliary variables has unit precision, so the site of row i is
    N(m_i + p_i, 1) for every class.

    Parameters
    ----------
    likelihood : MultinomialProbit
    mean : Doubles (n, K)
    target : Integers (n,)

    Returns
    -------
    Doubles (n, K)
    """
    return likelihood.gradient(mean, None, target)[1]
