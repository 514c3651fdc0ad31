"""Which row to include next: criteria and certified lazy scores."""
