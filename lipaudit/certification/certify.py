"""The certification of images as a function of Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import torch

from lipaudit.auditing.request import InputShape
from lipaudit.certification.request import certify_request
from lipaudit.certification.run import run_certification
from lipaudit.frontends.module import Network
from lipaudit.records.certification import Certification
from lipaudit.spectral.precompute import Progress


def certify(
    model: Network | str,
    images: str | os.PathLike[str] | torch.Tensor,
    *,
    labels: str | os.PathLike[str] | Sequence[int] | torch.Tensor | None = None,
    max_images: int | None = None,
    radii: float | Sequence[float] = (),
    units: str = "auto",
    input_shape: InputShape | None = None,
    fix: Mapping[str, object] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    device: str = "auto",
    tol: float = 1e-3,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    effort: str | None = None,
    local_steps: int = 0,
    attack_steps: int = 60,
    attack_starts: int = 4,
    seed: int = 0,
    cache: str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    workers: int = 1,
    state: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Certification:
    """Certify the decisions of a classifier at images: no input nearer than the certified radius is decided otherwise.

    With logits f, decision i and L_ij an upper bound of Lip(f_i - f_j), the decision holds within

        r = min over j of (f_i - f_j)(x) / L_ij

    in the l2 norm: (f_i - f_j)(y) >= (f_i - f_j)(x) - L_ij ||x - y|| > 0 (Tsuzuku, Sato and Sugiyama, *Lipschitz-Margin Training*, 2018,
    with a constant per pair of classes). What rounding may move a margin by is subtracted first; it is measured, not proved. An attack
    looks for the nearest input that is decided otherwise, from which the true radius is bounded from above.

    Args:
        model: an ``nn.Module``, an ``ExportedProgram``, or what a user would type; it returns one vector of logits, or their softmax.
        images: an image file, a folder of them or of one folder per class, a file of arrays (``.npy``, ``.npz``, ``.pt``), or a tensor.
            Image files and bytes are normalised as the model expects; floats are the network's own input.
        labels: a file of lines FILE,LABEL, or classes in the order of the images: a file of them, a list or a tensor. Without labels (and
            class folders) no accuracy is known, and decisions are certified all the same.
        max_images: the largest number of images, drawn with ``seed`` where there are more; default: all.
        radii: radii of the table of accuracies, beside 36/255, 72/255, 108/255 and 1.
        units: what radii are measured in: "pixels" in [0, 1], before the normalisation, or "input", the network's own; "auto" is
            pixels for image files and bytes, and the input for floats.
        input_shape, fix, weights, arch, device, tol, mean, std, effort, seed, cache, max_memory: as for :func:`lipaudit.audit`.
        local_steps: how many balls around every image are tried for bounds that hold on them alone; 0 for none. The larger radius
            counts.
        attack_steps, attack_starts: gradient steps of every start of the attack, and starts per image; 0 steps for no attack.
        workers: processes that share the images; the model must be given by its name.
        state: a file that keeps what is done; the same call continues from it after an interruption, with the same result.
        progress: called as progress(done, total, what).

    Returns:
        one record per image, and the accuracy that is certified, and that is left by the attack, at every radius.

    Raises:
        LipauditError: with the model or the image, and what to do; see ``lipaudit.errors``.

    >>> from torch import nn
    >>> net = nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> found = certify(net, torch.tensor([[1.0, 0.0]]), input_shape=(1, 2))
    >>> found.images[0].decision, 0.5999 < found.images[0].radius <= 3 / 5 <= found.images[0].attack_radius < 0.6001
    (0, True)
    """
    arguments = locals()
    del arguments["progress"]
    return run_certification(certify_request(**arguments), progress)
