"""Training with the bound: a differentiable norm of each layer and of the whole network, the regularization of the 2023 paper, losses on
certified radii, layers that are bounded by construction, and audits of checkpoints."""

from lipaudit.training.checkpoints import AuditCheckpoints
from lipaudit.training.geometry import Geometry
from lipaudit.training.margins import certified_radii, radius_cross_entropy, radius_hinge
from lipaudit.training.network import NetworkBound
from lipaudit.training.norm import spectral_norm_bound
from lipaudit.training.regularizer import LipschitzRegularizer, Schedule
from lipaudit.training.rescaling import Rescaling, rescale

__all__ = [
    "AuditCheckpoints",
    "Geometry",
    "LipschitzRegularizer",
    "NetworkBound",
    "Rescaling",
    "Schedule",
    "certified_radii",
    "radius_cross_entropy",
    "radius_hinge",
    "rescale",
    "spectral_norm_bound",
]
