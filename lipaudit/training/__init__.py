"""Training with the bound: a differentiable norm, the regularization of the 2023 paper, layers that are bounded by construction, and
audits of checkpoints."""

from lipaudit.training.checkpoints import AuditCheckpoints
from lipaudit.training.geometry import Geometry
from lipaudit.training.norm import spectral_norm_bound
from lipaudit.training.regularizer import LipschitzRegularizer, Schedule
from lipaudit.training.rescaling import Rescaling, rescale

__all__ = [
    "AuditCheckpoints",
    "Geometry",
    "LipschitzRegularizer",
    "Rescaling",
    "Schedule",
    "rescale",
    "spectral_norm_bound",
]
