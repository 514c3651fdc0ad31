"""The informative vector machine: criteria, row blocks, candidate pool, greedy rounds."""
