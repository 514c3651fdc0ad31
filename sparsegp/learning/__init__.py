"""Learning kernels and likelihoods, on arrays and small callables.

By the evidence of the active rows, while these stay: `objective.Objective` is the criterion over
row blocks, `hyperpriors.parse` adds to it, and `optimise.descend` goes down. By the predictive
probability of held-out rows: `search.search` chooses among the kernels of `space`, and
`relevances` finds a length scale for every column.
"""
