"""What was audited, and how: the model, and everything else that the figures depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelRecord:
    """Which model this is. ``state_dict_sha256`` is None in a report of the structure alone."""

    spec: str
    source: str
    weights: str
    input_shape: tuple[int, ...]
    num_parameters: int
    state_dict_sha256: str | None
    file_sha256: str | None = None
    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unused_parameters: tuple[str, ...] = ()
    preprocessing: dict[str, tuple[float, ...]] | None = None


@dataclass(frozen=True)
class HeldInput:
    """The value that an input is held at: a constant of the audit.

    ``value`` is the number where every entry is that number, or nested lists of up to 16 entries; anything longer has the ``sha256`` of
    its bytes instead. ``dtype`` is a type of tensors, or of Python: ``int``, ``float``, ``bool``, ``str``, ``none`` (which has no value).
    """

    shape: tuple[int, ...]
    dtype: str
    value: Any = None
    sha256: str | None = None


@dataclass(frozen=True)
class SettingsRecord:
    """Everything that the figures depend on beside the model.

    ``around`` (None for a tensor given in Python) and ``radius`` are those of the domain ``ball``, as the user gave them;
    ``radius_in`` says in what the radius counts: ``pixels`` in [0, 1], or the network's own ``input``; ``radius_norm`` in which norm,
    ``l2`` where it is not said. ``centres`` is the number of balls where ``around`` names several centres, None for one.

    ``effort`` is that of the search for a bound below the product of layer norms (``none``: there was no search), ``warm_start_sha256``
    the hash of the certificate that it started from, None where it started anew.

    ``structure`` marks a report without figures: no norms were computed, and ``status`` is the answer.

    ``method`` is how the norms of weights were found: ``gram``, or a published method with the ``iterations`` (or samples) that it
    took, None where it has none.

    ``freeze_random`` is the seed at which random numbers are held that the network draws while it computes its weights.

    ``fixed`` are the inputs that are held at a value, by name: the figures are those of the network as a function of the others.
    """

    norm: str = "l2"
    method: str = "gram"
    tolerance: float = 1e-3
    domain: str = "global"
    dtype: str = "float64"
    device: str = "cpu"
    seed: int = 0
    effort: str = "none"
    warm_start_sha256: str | None = None
    structure: bool = False
    around: str | None = None
    radius: float | None = None
    radius_in: str | None = None
    radius_norm: str | None = None
    centres: int | None = None
    iterations: int | None = None
    freeze_random: int | None = None
    fixed: dict[str, HeldInput] = field(default_factory=dict)
