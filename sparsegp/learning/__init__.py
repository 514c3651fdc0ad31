"""Learning the parameters of kernel and likelihood while the active rows stay as they are."""
