"""The audit of a network, and the comparison of methods, as functions of Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import torch

from lipaudit.auditing.compare import run_comparison
from lipaudit.auditing.request import AuditRequest, CompareRequest, InputShape
from lipaudit.auditing.run import run_audit
from lipaudit.auditing.values import GRAM
from lipaudit.frontends.module import Network
from lipaudit.records.comparison import Comparison
from lipaudit.records.report import AuditReport
from lipaudit.spectral.precompute import Progress


def audit(
    model: Network | str,
    input_shape: InputShape | None = None,
    *,
    fix: Mapping[str, object] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    device: str = "auto",
    tol: float = 1e-3,
    lower_bound: bool = False,
    images: str | os.PathLike[str] | torch.Tensor | None = None,
    max_images: int | None = None,
    save_pair: str | os.PathLike[str] | None = None,
    seed: int = 0,
    freeze_random: int | None = None,
    structure: bool = False,
    norm: str = "l2",
    domain: str = "global",
    around: str | torch.Tensor | None = None,
    radius: float | None = None,
    norm_domain: str = "l2",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    method: str = GRAM,
    iterations: int | None = None,
    effort: str | None = None,
    certificate: str | os.PathLike[str] | None = None,
    warm_start: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    absolute_paths: bool = False,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Bound how far a network can stretch a perturbation of its input, per layer and as a whole.

    The bound is sup ||f(x) - f(y)|| / ||x - y|| over all inputs x != y of the domain, l2 norms over all elements of one sample,
    for f in eval mode. With the default method it is certified: it holds for the real-arithmetic function that the stored weights
    define. Networks that multiply data-dependent tensors (attention, gating) have bounds of rigor ``numerical``: theorems too,
    up to the rounding of the values that were computed at the centre of the domain. With a published ``method`` a figure is at
    best ``numerical``, and often an ``estimate``, which is no bound.

    Args:
        model: an ``nn.Module`` (of TorchScript, too), an ``ExportedProgram``, or what a user would type: ``"resnet50"``,
            ``"model.onnx"``, ``"timm:resnet18.a1_in1k"``.
        input_shape: (3, 224, 224) for an image, (224, 224) or 224 where the model has a size of its own or its first layer
            tells the channels; a mapping from input names to full shapes with a batch axis of 1, taken literally; or the text that
            ``--input`` takes. Default: the model's own.
        fix: inputs that are held, with their values: tensors, arrays, numbers, None, or the text that ``--fix`` takes. They are
            constants of the audit, and the bound is in the other inputs. An optional argument of ``forward`` keeps its default
            unless it is named here or in ``input_shape``.
        weights, arch: as ``--weights`` and ``--arch`` on the command line; only for models given by text.
        device: "auto", "cpu" or "cuda": where the network itself runs (for ``lower_bound``). On a GPU lipaudit's own
            norms are found there, too, all together; in float64 everywhere.
        tol: upper / lower per layer is within 1 + tol where the operation's norm can be known that closely.
        lower_bound: also search for two inputs between which the whole network stretches much; what is measured between them
            is an empirical lower bound.
        images: images at which the norm of the network's Jacobian is measured, and from which the search of ``lower_bound`` starts: an
            image file, a folder of images or of class folders, an array or tensor file (.npy, .npz, .pt), or a tensor of shape
            (N, ...). Image files and 8-bit integers are pixels, normalised as the model expects it; floating-point numbers are inputs
            of the network as they are. Not with a ball.
        max_images: the largest number of ``images``, by default 32; where there are more, ``seed`` decides which are read.
        save_pair: a file NAME.npz for these two inputs: arrays ``x.INPUT`` and ``y.INPUT``; with ``lower_bound`` or ``images`` only.
        seed: seeds that search, and the random start of a published method.
        freeze_random: a seed for random numbers that the network draws while it computes its weights (a power iteration that starts
            anew at every call): the audit is of the weights that this draw gives. Without it such a network has no bound.
        structure: only find out which operations and whether the network have a finite constant, in seconds: models given by
            name are built without weights, no norm is computed, the report has statuses and no figures.
        norm: of inputs and outputs: "l2", "linf" (the largest entry) or "l1" (the sum of moduli). In the last two, sums of moduli of rows
            and columns bound linear maps, and operations without a rule in them are unsupported; over all inputs only, and without
            what belongs to the l2 norm (``structure``, ``method``, ``effort``, ``domain``, ``images``).
        domain: "global" (all inputs), "pixels" (images with pixels in [0, 1], normalised as the model expects it) or "ball"
            (within ``radius`` of ``around``).
        around, radius: centre and radius of the ball. An image file counts in pixels in [0, 1], before the model's own
            normalisation; a tensor or tensor file (.npy, .npz, .pt) in the network's own input. A folder of images (or of folders of
            images), or a batch of inputs: one ball around each, and the largest of their bounds; ``network.balls`` has every one.
        norm_domain: the norm in which the ball has its radius: "l2", or "linf", where every entry is within the radius.
        mean, std: the normalisation (pixel - mean) / std, one number per channel or one for all, where the model's own is not
            known; not around a tensor.
        method: how the norms of convolutions and matrices are found: "gram" (certified) or the name of a published method
            (``lipaudit methods`` lists them), whose figures are ``numerical`` at best and may be estimates; those stand in
            fields named so.
        iterations: iterations or samples of the method, for those that have any; default: the number that
            ``lipaudit methods`` shows.
        effort: how much is spent on a bound of the whole network that is tighter than the product of its operations' constants: "none",
            "quick", "standard" or "thorough" (at most 5e10, 5e11 and 2e13 operations by formula, whatever the machine). It
            holds over all inputs; the report keeps both bounds and prints the least. Default: "quick", and "none" for a published
            ``method`` or the ``structure``, from which no search can start.
        certificate: a file NAME.safetensors for the numbers that prove the tighter bound; :func:`lipaudit.verify` computes the
            bound again from them.
        warm_start: the ``certificate`` of an earlier checkpoint of the same architecture, at whose numbers the search starts. They are
            a start and nothing else: the bound is proved for this network, whatever the file holds.
        cache: a folder that keeps lipaudit's own norms from one audit to the next, by the content of the weights; made if it
            does not exist. Other methods and ``structure`` have nothing to keep.
        absolute_paths: keep the folders of the model's and the centre's file in the report; without it a path outside the working
            directory is cut to its last part.
        max_memory: how much memory the tensors that a model file describes may take, in bytes or as text (``"16GB"``); default:
            4GB. A file that asks for more is refused before anything is computed.
        progress: called as progress(done, total, name) while layers are bounded.

    Returns:
        the report; ``report.network.status`` is "finite", "unbounded" or "unsupported".

    Raises:
        LipauditError: with the model, the place and what to do; see ``lipaudit.errors``.

    >>> import torch
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> report = audit(net, input_shape=(1, 2))
    >>> report.network.status, 4 <= report.network.upper_bound <= 4.004
    ('finite', True)
    """
    arguments = locals()
    del arguments["progress"]
    return run_audit(AuditRequest(**arguments), progress)


def compare(
    model: Network | str,
    input_shape: InputShape | None = None,
    *,
    methods: str | Sequence[str] | None = None,
    fix: Mapping[str, object] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    device: str = "auto",
    tol: float = 1e-3,
    seed: int = 0,
    iterations: int | None = None,
    time_limit: float | None = 60.0,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measure every convolution and dense layer of a network by several methods, beside certified bounds of its true norm.

    Batch norms are folded as in an audit. A figure below the certified lower bound is marked: it is provably no upper bound of
    that layer. The network's figure by each method is propagated over all inputs from the same figures.

    Args:
        model, input_shape, fix, weights, arch, device, tol, seed, max_memory: as for :func:`audit`; ``tol`` is that of the certified
            bounds.
        methods: names as ``lipaudit methods`` lists them, in a list or tuple, or as ``--methods`` takes them; default: every method.
        iterations: iterations or samples, for the methods that have any; default: the number that ``lipaudit methods`` shows
            for each.
        time_limit: seconds per method after which it measures nothing more, None for none. What has begun is finished.
        progress: called as progress(done, total, what) before each measurement.

    Raises:
        LipauditError: with the model, the place and what to do; see ``lipaudit.errors``.

    >>> from torch import nn
    >>> found = compare(nn.Linear(2, 2), methods=["sedghi2019"], input_shape=(1, 2))
    >>> found.layers[0].figures[0].below_lower_bound, found.methods[0].violations
    (False, 0)
    """
    arguments = locals()
    del arguments["progress"]
    return run_comparison(CompareRequest(**arguments), progress)
