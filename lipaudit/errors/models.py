"""What is wrong with the model that was named: its specification, its weights, its architecture."""

from __future__ import annotations

from collections.abc import Iterable

from lipaudit.errors import UsageError
from lipaudit.option_names import spell


class ModelSpecError(UsageError):
    """A text that names no model.

    >>> print(ModelSpecError("hf-hub:x", "hf-hub:OWNER/NAME"))
    'hf-hub:x' does not name a model: write hf-hub:OWNER/NAME
    """

    def __init__(self, text: str, forms: str) -> None:
        super().__init__(f"{text!r} does not name a model: write {forms}")


class ModelPatternError(UsageError):
    """A pattern of names where one model is needed."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is a pattern for several models: name one of them")


class ModelSuffixError(UsageError):
    """A file whose name does not tell what it holds."""

    def __init__(self, text: str, suffixes: Iterable[str]) -> None:
        super().__init__(f"{text} is not a known model file: the suffix must be one of {', '.join(suffixes)}")


class MissingArchitectureError(UsageError):
    """A file of weights, and no word of the architecture that they belong to."""

    def __init__(self, text: str, structure: bool) -> None:
        advice = (
            f"{spell('structure')} reads no weights, so name the architecture as the model, for example resnet50, timm:resnet18 or "
            "package.module:factory"
            if structure
            else f"name it with {spell('arch')}, for example {spell('arch', 'resnet50')}, {spell('arch', 'timm:resnet18')} or "
            f"{spell('arch', 'package.module:factory')}"
        )
        super().__init__(f"{text} holds weights without an architecture: {advice}")


class OwnWeightsError(UsageError):
    """Weights, or an architecture, for a network that has its own."""

    def __init__(self) -> None:
        super().__init__("weights and arch are for models given by name or file; this network has its own weights")


class FactoryWeightsError(UsageError):
    """Random weights for a factory, which makes its own."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} makes its own weights, and lipaudit draws none for it: leave out {spell('weights', 'random')} to keep "
            "them, or name a file of weights"
        )
