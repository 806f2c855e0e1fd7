"""Experiments: what runs and shows them (``harness``), and the tables and figures of the paper of 2023, one file each (``paper2023``).

Importing this package registers every experiment.
"""

from lipaudit.experiments import paper2023

__all__ = ["paper2023"]
