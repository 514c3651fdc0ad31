"""Where row blocks live and how they are called."""
