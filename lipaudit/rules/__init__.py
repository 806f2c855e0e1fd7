"""One rule per operation: how much it can stretch a perturbation."""
