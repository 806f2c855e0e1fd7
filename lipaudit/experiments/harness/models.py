"""Torchvision's networks with the weights that the user chose, and their convolutions with the sizes that they read."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from lipaudit.errors import ModelLoadError, ModelNotFoundError, UsageError
from lipaudit.frontends.files import existing_file, sha256
from lipaudit.frontends.load import load
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.spectral.convolution.geometry import Convolution

PAPER_WEIGHTS = "IMAGENET1K_V1"


def load_network(name: str, size: int, weights: str | None) -> LoadedModel:
    """A network of torchvision at an input of 3 x size x size.

    ``weights`` is None for the paper's (``IMAGENET1K_V1``), a tag of torchvision, ``random``, or a file. Raises
    :class:`~lipaudit.errors.WeightsUnavailableError` where they cannot be fetched, and
    :class:`~lipaudit.errors.ModelLoadError` for a file that does not hold them.
    """
    from torchvision.models import get_model_weights

    tag = PAPER_WEIGHTS if weights is None else weights
    if tag in get_model_weights(name).__members__:
        return load(f"torchvision:{name}@{tag}", input_shapes={"": (size,)})
    try:
        return load(f"torchvision:{name}", input_shapes={"": (size,)}, weights=tag)
    except ModelLoadError as error:
        # there is no --arch here
        problem = str(error).removesuffix("; name the right one with --arch").replace(" and name --arch", "")
        raise ModelLoadError(f"{problem}; --weights must be a state dict of torchvision's {name}") from error


def has_paper_weights(name: str, weights: str | None) -> bool:
    """Whether those are ``IMAGENET1K_V1``: by name, or a file with the SHA-256 whose start torchvision puts into its name."""
    from torchvision.models import get_model_weights

    if weights is None or weights == PAPER_WEIGHTS:
        return True
    members = get_model_weights(name).__members__
    if weights in members:  # DEFAULT is another name of one of them
        return bool(members[weights] is members[PAPER_WEIGHTS])
    if weights == "random":
        return False
    start = members[PAPER_WEIGHTS].url.rpartition("-")[2].partition(".")[0]
    return sha256(existing_file(weights)).startswith(start)


def describe_weights(loaded: LoadedModel) -> str:
    """Where the weights came from, for the setting of a result."""
    if loaded.weights == "random":
        return "random weights (seed 0), which say nothing of a trained network"
    return f"weights {loaded.weights}"


def check_weights(weights: str | None, names: tuple[str, ...]) -> None:
    """Refuse, before anything is loaded, a tag or a file that does not exist, and one file for several networks."""
    from torchvision.models import get_model_weights

    if weights is None or weights == "random" or not names:
        return
    tags = [list(get_model_weights(name).__members__) for name in names]
    common = [tag for tag in tags[0] if all(tag in others for others in tags)]
    if weights in common:
        return
    among, choices = ", ".join(names), ", ".join(common)
    if any(weights in others for others in tags):
        raise UsageError(f"not all of {among} have the weights {weights}: --weights takes {choices} or random")
    try:
        existing_file(weights)
    except ModelNotFoundError:
        raise ModelNotFoundError(
            f"there is no file {weights}, and torchvision has no weights of that name for {among}: --weights takes {choices}, random, "
            "or a file"
        ) from None
    if len(names) > 1:
        raise UsageError(
            f"--weights {weights} cannot serve {among}: a file belongs to one architecture; leave out --full, or give random or a tag "
            "that all of them have"
        )


def convolutions(module: nn.Module, size: int) -> list[tuple[str, Convolution]]:
    """Name and geometry of every 2-D convolution that a forward pass of one image runs, in the order of the modules."""
    sizes: dict[str, tuple[int, ...]] = {}
    handles = [
        layer.register_forward_hook(_recorder(name, sizes))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Conv2d)
    ]
    parameter = next(module.parameters())
    try:
        with torch.no_grad():
            module(torch.zeros(1, 3, size, size, dtype=parameter.dtype, device=parameter.device))
    finally:
        for handle in handles:
            handle.remove()
    return [
        (name, _geometry(layer, sizes[name]))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Conv2d) and name in sizes
    ]


def _recorder(
    name: str, sizes: dict[str, tuple[int, ...]]
) -> Callable[[nn.Module, tuple[torch.Tensor, ...], object], None]:
    def record(_module: nn.Module, inputs: tuple[torch.Tensor, ...], _output: object) -> None:
        sizes[name] = tuple(inputs[0].shape[2:])

    return record


def _geometry(layer: nn.Conv2d, size: tuple[int, ...]) -> Convolution:
    if isinstance(layer.padding, str):
        raise UsageError(f"a convolution with padding={layer.padding!r} is not part of these experiments")
    return Convolution(
        layer.weight.detach(),
        size,
        tuple(layer.stride),
        tuple((p, p) for p in layer.padding),
        tuple(layer.dilation),
        layer.groups,
        layer.padding_mode,
    )
