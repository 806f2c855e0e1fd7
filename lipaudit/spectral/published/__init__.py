"""The methods that papers compare, one file each, faithful to their definitions and with an honest rigor."""

from lipaudit.spectral.published import sedghi2019  # noqa: F401  registers the method
