"""Learning of kernels and likelihoods, on arrays and small callables.

By the marginal likelihood for fixed active rows: `objective.Objective` computes minus its logarithm
over row blocks, `hyperpriors.parse` adds a hyperprior, and `optimise.descend` minimises the sum. Or
by the predictive probability of held-out rows: `search.search` chooses among the kernels of
`space`, and `by_column.learn_by_column` learns per-column length scales.
"""
