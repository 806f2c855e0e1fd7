"""Errors of training: which weights cannot be read, rescaled or audited, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from lipaudit.errors import UsageError


class UnmatchedLayerError(UsageError):
    """A layer to which no pattern of a mapping of targets or limits applies.

    >>> print(UnmatchedLayerError("conv1", "target"))
    no target is for the layer conv1: add one, or "*": None for all that are left
    """

    def __init__(self, layer: str, called: str) -> None:
        super().__init__(f'no {called} is for the layer {layer}: add one, or "*": None for all that are left')


class UnusedPatternError(UsageError):
    """A pattern that is the name of no layer."""

    def __init__(self, pattern: str, layers: Iterable[str]) -> None:
        super().__init__(f"no layer has a name like {pattern}; the layers are {', '.join(layers)}")


class UnreadableWeightError(UsageError):
    """A weight that is computed from parameters, so that it cannot be read from the model after a step."""

    def __init__(self, layer: str, called: str) -> None:
        super().__init__(
            f"the weight of {layer} is computed from parameters, and cannot be read from the model: make the computation a "
            f'parametrization (torch.nn.utils.parametrize), or leave the layer out with a {called} "{layer}": None'
        )


class UnreadableScaleError(UsageError):
    """A scale that the audit folds into a layer's row and that cannot be read from the model."""

    def __init__(self, scale: str, layer: str, called: str) -> None:
        super().__init__(
            f"the audit folds the scale {scale} into the row of {layer}, and it cannot be read from the model (it is computed from several "
            "tensors, or the weight is a symmetric matrix whose sides cannot be told apart): leave the layer out with a "
            f'{called} "{layer}": None, or take every weight without the scales around it with batch_norms="separate"'
        )


class UnfollowedParameterError(UsageError):
    """What is trained, and changes the constant of an operation in a way that is not followed during training.

    >>> print(UnfollowedParameterError("norm", "the parameter norm.weight"))
    the bound of the network cannot follow how the constant of norm depends on the parameter norm.weight: freeze it \
(requires_grad_(False)) where it is a parameter, or use a LipschitzRegularizer, which bounds layers one by one
    """

    def __init__(self, place: str, what: str) -> None:
        super().__init__(
            f"the bound of the network cannot follow how the constant of {place} depends on {what}: freeze it "
            "(requires_grad_(False)) where it is a parameter, or use a LipschitzRegularizer, which bounds layers one by one"
        )


class NoNetworkBoundError(UsageError):
    """A network without a finite bound over all inputs.

    >>> print(NoNetworkBoundError("square", "x^2 has no finite constant"))
    the network has no bound over all inputs that could be trained, because of square: x^2 has no finite constant
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the network has no bound over all inputs that could be trained, because of {place}: {reason}"
        )


class FixedBatchNormError(UsageError):
    """A batch norm without a weight, which no rescaling can change."""

    def __init__(self, norm: str, layer: str) -> None:
        super().__init__(
            f"the audit folds the batch norm {norm} into the row of {layer}, and it has no weight that could be rescaled: give it one "
            f'(affine=True), leave the layer out with a limit "{layer}": None, or rescale the stored weights alone, without a limit for '
            'their rows in the audit, with batch_norms="separate"'
        )


class RescaledTwiceError(UsageError):
    """A weight that is rescaled already."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place} is rescaled already: end that with torch.nn.utils.parametrize.remove_parametrizations first, or give it the limit "
            "None"
        )


class CircularRescalingError(UsageError):
    """Weights each of which would be rescaled by what the others are rescaled by."""

    def __init__(self, places: Iterable[str]) -> None:
        super().__init__(
            f"{', '.join(places)}: the rescaled value would depend on itself, because the same module is used in front of a layer and "
            "behind one. Give a layer of these the limit None, or take every weight without the scales around it with "
            'batch_norms="separate"'
        )


class ShardedWeightsError(UsageError):
    """Weights of which each process holds a part; the bound of a part is no bound of the network.

    >>> print(ShardedWeightsError("the weight w"))
    the weight w is divided among processes, so that no process holds the network: audit the saved checkpoint after the training instead
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is divided among processes, so that no process holds the network: audit the saved checkpoint after the training "
            "instead"
        )


class ChangedWeightsError(UsageError):
    """Weights that changed during their audit."""

    def __init__(self) -> None:
        super().__init__(
            "the weights changed while they were audited, by a hook of the network or in its forward pass in evaluation mode: the report "
            "is of neither; take out what changes them"
        )


class NoCheckpointsError(UsageError):
    """A trainer that saves no checkpoints, or none that a callback hears of, so that none would be audited.

    >>> print(NoCheckpointsError("this Trainer saves no checkpoints"))
    this Trainer saves no checkpoints, so that none would be audited: AuditCheckpoints(..., at='epoch')
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        more = f", or {remedy}" if remedy else ""
        super().__init__(f"{reason}, so that none would be audited: AuditCheckpoints(..., at='epoch'){more}")
