"""The version of lipaudit, for records and for the package; it is imported by every layer."""

__version__ = "0.1.0"
