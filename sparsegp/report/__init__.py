"""Progress, metrics and pictures."""
