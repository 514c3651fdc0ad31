"""The informative vector machine: rows are included one by one, the most useful first.

- `reference`: the recursion of the paper as printed, which the rest computes in parallel;
- `criteria`, `scores`: what makes a row worth including, and where that need not be evaluated;
- `inclusions`, `active_set`: what the driver sends to the row blocks, and what it remembers;
- `rows`, `block`, `pairs`: the state of a block of rows, for one active set or one a process;
- `features`, `evidence_rows`: sums over the rows of a block, for posteriors and for learning;
- `greedy`, `pool`, `verify`: the rounds, several inclusions at a time in the order of single ones;
- `shrink`: fewer and fewer candidates, so that memory stays small.
"""
