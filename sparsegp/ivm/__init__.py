"""The informative vector machine: greedy selection of active rows, the most useful first.

- `criteria`, `scores`: scores of rows, and bounds that avoid evaluating most of them;
- `active_set`: messages to the row blocks, and the record of these messages;
- `rows`, `block`, `pairs`: the state of a row block, with one active set or one per process;
- `features`, `evidence_rows`: sums over the rows of a block, for the posterior and for learning;
- `greedy`, `verify`: rounds of several inclusions, in one-by-one order or in panels;
- `shrink`: dropping candidates, so that memory stays small.
"""
