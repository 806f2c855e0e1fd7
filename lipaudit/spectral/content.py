"""A key for the content of a linear map: equal maps have equal keys, whatever objects hold them."""

from __future__ import annotations

from hashlib import blake2b

import torch

from lipaudit.spectral.geometry import Convolution


def content_key(weight: Convolution | torch.Tensor) -> bytes:
    """A BLAKE2 digest of the numbers, their dtype and shape, and of the geometry where there is one.

    >>> content_key(torch.ones(2, 3)) == content_key(torch.ones(2, 3))
    True
    >>> content_key(torch.ones(2, 3)) == content_key(torch.ones(3, 2))
    False
    """
    tensors, geometry = (
        ((weight.weight, *weight.scales), weight.geometry) if isinstance(weight, Convolution) else ((weight,), None)
    )
    digest = blake2b(repr(geometry).encode(), digest_size=32)
    for tensor in tensors:
        plain = tensor.detach().to("cpu").contiguous()
        digest.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")
    return digest.digest()
