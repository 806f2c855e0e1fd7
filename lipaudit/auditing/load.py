"""From a request to a loaded model: what was named or given, its inputs, and the normalisation of its pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lipaudit.auditing.balls import Ball
from lipaudit.auditing.domain import override_preprocessing, resolve_domain
from lipaudit.auditing.placement import check_device
from lipaudit.auditing.request import AuditRequest, CompareRequest
from lipaudit.auditing.values import MOST_IMAGES
from lipaudit.errors.models import OwnWeightsError
from lipaudit.files import check_writable
from lipaudit.frontends.held_inputs import describe, read_fixed
from lipaudit.frontends.images import Images, read_images
from lipaudit.frontends.load import load
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.memory import allowed_memory
from lipaudit.frontends.module import wrap_module
from lipaudit.network.domain import Domain
from lipaudit.network.pair_file import check_folder


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model with the normalisation in force, the domain over which its bound is asked for, and the user's images.

    ``balls`` has the balls around several centres, the domain being the first of them; it is empty for any other domain.
    """

    model: LoadedModel
    domain: Domain
    balls: tuple[Ball, ...] = ()
    images: Images | None = None


def load_request(request: AuditRequest) -> Loaded:
    """The model and the domain of an audit.

    Raises :class:`~lipaudit.errors.UsageError` where they do not fit, and the errors of :func:`lipaudit.frontends.load.load`.
    """
    if request.save_pair is not None:
        check_folder(request.save_pair)
    if request.certificate is not None:
        check_writable(Path(request.certificate))
    model = open_model(request)
    model = replace(model, preprocessing=override_preprocessing(model, request.mean, request.std))
    resolved = resolve_domain(request, model)
    return Loaded(model, resolved.domain, resolved.balls, _images(request, model))


def _images(request: AuditRequest, model: LoadedModel) -> Images | None:
    if request.images is None:
        return None
    return read_images(request.images, model, limit=request.max_images or MOST_IMAGES, seed=request.seed)


def open_model(request: AuditRequest | CompareRequest) -> LoadedModel:
    """The network that a user named or gave, with the inputs of ``fix`` held at their values."""
    check_device(request.device)
    with allowed_memory(request.max_memory):
        loaded = _open(request)
    held = describe(loaded.fixed)
    return replace(loaded, notes=(*loaded.notes, held)) if held else loaded


def _open(request: AuditRequest | CompareRequest) -> LoadedModel:
    model, shapes, weights, arch, fixed = (
        request.model,
        request.shapes,
        request.weights,
        request.arch,
        read_fixed(request.fix),
    )
    if isinstance(model, str):
        structure = isinstance(request, AuditRequest) and request.structure
        if structure and weights == "random":  # neither is loaded
            weights = None
        return load(model, input_shapes=shapes, weights=weights, arch=arch, structure=structure, fixed=fixed)
    if weights is not None or arch is not None:
        raise OwnWeightsError
    return wrap_module(model, shapes, fixed)
