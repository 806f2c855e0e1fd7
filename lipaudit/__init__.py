"""lipaudit: certified bounds of how far a pretrained network can stretch a perturbation of its input."""

__version__ = "0.1.0"
