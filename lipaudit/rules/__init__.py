"""One rule per operation: how much it can stretch a perturbation. Importing this package registers all of them."""

from lipaudit.rules import (
    activation,
    arithmetic,
    joining,
    linear,
    movement,
    normalization,
    pooling,
    products,
    reduction,
    repetition,
    resize,
    softmax,
    steps,
)

__all__ = [
    "activation",
    "arithmetic",
    "joining",
    "linear",
    "movement",
    "normalization",
    "pooling",
    "products",
    "reduction",
    "repetition",
    "resize",
    "softmax",
    "steps",
]
