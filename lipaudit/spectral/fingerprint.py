"""A key for the content of a linear map: equal maps have equal keys, whatever objects hold them."""

from __future__ import annotations

from hashlib import blake2b

import torch

from lipaudit.spectral.convolution.geometry import Convolution


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
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(stored_bytes(tensor))
    return digest.digest()


def stored_bytes(tensor: torch.Tensor) -> memoryview:
    """The numbers of a tensor as they are stored, in the order of its axes; a sparse one is written out."""
    plain = tensor.detach().to("cpu")
    plain = plain.contiguous() if plain.layout is torch.strided else plain.to_dense()
    return plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else memoryview(b"")
