"""Data sets: reading, scaling, labels."""
