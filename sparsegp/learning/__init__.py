"""Learning the parameters of kernel and likelihood while the active rows stay as they are.

`objective.Objective` is the criterion over row blocks, `hyperpriors.parse` adds to it, and
`optimise.descend` goes down.
"""
