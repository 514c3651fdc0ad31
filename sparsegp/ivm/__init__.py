"""The informative vector machine: row blocks, candidate pool, greedy rounds."""
