"""A certification in steps: load, capture, bounds of pairs of classes, then image by image, and the record of all."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from lipaudit.auditing.capture import Captured, capture_model
from lipaudit.auditing.constants import find_constants
from lipaudit.auditing.domain import override_preprocessing
from lipaudit.auditing.load import open_model
from lipaudit.auditing.notes import graph_notes
from lipaudit.auditing.placement import placed
from lipaudit.auditing.provenance import environment, model_record, state_dict_sha256, timestamp
from lipaudit.certification.attack import Attack
from lipaudit.certification.certify_image import ImageCertifier, Question
from lipaudit.certification.classifier import Classifier, classifier_of
from lipaudit.certification.constants import GlobalBounds, Pair, PairBound, PairConstants
from lipaudit.certification.request import CertifyRequest
from lipaudit.certification.state import State, opened
from lipaudit.certification.totals import accuracy, at_radius, curve
from lipaudit.certification.workers import Answer, Chunk, in_processes
from lipaudit.errors import RequirementError
from lipaudit.errors.images import LabelsError
from lipaudit.frontends.images import Images, read_images
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.normalisation import check_channels, known_normalisation, of_equal_length
from lipaudit.network.efforts import EFFORTS
from lipaudit.option_names import spell
from lipaudit.records.certification import Certification, CertificationSettings, ConstantRecord, ImageRecord
from lipaudit.records.codec import encode
from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.fingerprint import stored_bytes
from lipaudit.spectral.precompute import Progress
from lipaudit.user_code import exit_is_an_error
from lipaudit.version import __version__

_CHUNK = 16  # images that are worked on, attacked and recorded together


def run_certification(
    request: CertifyRequest, progress: Progress | None = None, labels_for: str | None = None
) -> Certification:
    """Carry out a certification; what the options mean stands at :func:`lipaudit.certify`.

    Args:
        request: the model, the images and every option.
        progress: called as progress(done, total, name) while norms, pairs and images are worked on.
        labels_for: what needs to know the accuracy; without labels it is refused before any bound is computed.
    """
    if request.workers > 1 and not isinstance(request.audit.model, str):
        raise RequirementError(spell("workers", request.workers), "a model by its name", "every process loads it anew")
    with _session(request, labels_for) as session:
        run = _identity(request, session) if request.state is not None else {}
        with opened(request.state, run) as state:
            if not state.head:
                state.begin({"created": timestamp(), "bounds": _bounds_to_json(_bounds(request, session, progress))})
            _answer_all(request, session, state, progress)
            images = [image for number in sorted(state.chunks) for image in state.chunks[number]]
            return _record(
                request,
                session,
                _bounds_from_json(session.classifier, state.head["bounds"]),
                images,
                state.head["created"],
            )


@dataclass(frozen=True, eq=False)
class _Session:
    """A loaded model with the images that it is to certify: ``mean`` and ``std`` are empty where the images are its own inputs."""

    loaded: LoadedModel
    network: Captured
    classifier: Classifier
    images: Images
    units: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    place: torch.device

    def question(self, number: int) -> Question:
        """One image in the units of the radii: the numbers that the network reads, taken back to pixels."""
        image, labels = self.images.inputs[number : number + 1].to(torch.float64), self.images.labels
        if self.mean:
            mean, std = (_per_channel(values, image) for values in (self.mean, self.std))
            image = image * std + mean
        label = None if labels is None else int(labels[number])
        return Question(self.images.names[number], label, image.to(self.place))


def _per_channel(values: Sequence[float], image: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(1, -1, *(1,) * (image.dim() - 2))


@contextmanager
def _session(request: CertifyRequest, labels_for: str | None = None) -> Iterator[_Session]:
    audit = request.audit
    with exit_is_an_error(audit.arch or audit.model):
        loaded = open_model(audit)
        loaded = replace(loaded, preprocessing=override_preprocessing(loaded, audit.mean, audit.std))
        images = read_images(request.images, loaded, labels=request.labels, limit=request.max_images, seed=audit.seed)
        if labels_for is not None and images.labels is None:
            raise RequirementError(labels_for, spell("labels", "FILE"), "an accuracy is known of labelled images only")
        units = "pixels" if request.units == "auto" and images.from_pixels else request.units
        units = "input" if units == "auto" else units
        mean, std = _pixels(loaded) if units == "pixels" else ((), ())
        with placed(loaded, audit.device) as place:
            network = capture_model(loaded, place, freeze=audit.freeze_random)
            classifier = classifier_of(network, mean, std)
            _check_labels(images, classifier.classes, request)
            yield _Session(loaded, network, classifier, images, units, mean, std, place)


def _pixels(loaded: LoadedModel) -> tuple[tuple[float, ...], tuple[float, ...]]:
    known = known_normalisation(loaded)
    for name, shape in loaded.input_shapes.items():
        check_channels(name, shape, known)
    return of_equal_length(known)


def _check_labels(images: Images, classes: int, request: CertifyRequest) -> None:
    if images.labels is not None and int(images.labels.max()) >= classes:
        option, name = ("images", request.images) if request.labels is None else ("labels", request.labels)
        source = spell(option, name) if isinstance(name, str) else spell(option)
        problem = f"there is a label {int(images.labels.max())}, and the network has {classes} classes"
        raise LabelsError(source, problem, "classes are counted from 0, in the order of the logits")


def _folders(request: CertifyRequest, images: Images) -> tuple[str, ...]:
    """Which class a folder was taken for, where its name does not say so."""
    if request.labels is not None or images.labels is None or not images.classes:
        return ()
    numbers = {name.split("/")[0]: int(label) for name, label in zip(images.names, images.labels, strict=True)}
    if all(name == str(number) for name, number in numbers.items()):
        return ()
    said = ", ".join(f"{name} is {number}" for name, number in sorted(numbers.items(), key=lambda pair: pair[1]))
    return (f"Class folders are numbered in the order of their names: {said}; --labels says otherwise.",)


def _bounds(request: CertifyRequest, session: _Session, progress: Progress | None) -> GlobalBounds:
    constants = find_constants(request.audit, session.classifier.simple, session.place, progress)
    finder = PairConstants(session.classifier, constants, EFFORTS[request.audit.search_effort])
    told = None if progress is None else lambda done, total: progress(done, total, "pairs of classes")
    return finder.everywhere(told)


def _answer_all(request: CertifyRequest, session: _Session, state: State, progress: Progress | None) -> None:
    """Certify the chunks that are not done yet, and keep each as soon as it is there."""
    total = len(session.images)
    chunks = [tuple(range(first, min(first + _CHUNK, total))) for first in range(0, total, _CHUNK)]
    todo = [(number, chunk) for number, chunk in enumerate(chunks) if number not in state.chunks]
    done = sum(len(chunk) for chunk in chunks) - sum(len(chunk) for _, chunk in todo)
    if request.workers > 1 and len(todo) > 1:
        with closing(in_processes(request, _prepared, state.head, todo)) as answers:
            for number, images in answers:
                state.add(number, images)
                done += len(images)
                if progress is not None:
                    progress(done, total, "images")
        return
    answer = _answer(request, session, state.head) if todo else None
    for number, chunk in todo:
        assert answer is not None
        state.add(number, answer(chunk))
        done += len(chunk)
        if progress is not None:
            progress(done, total, "images")


def _prepared(request: CertifyRequest, head: dict[str, Any]) -> Answer:
    """What a worker process answers chunks with; its model stays loaded as long as the process lives."""
    session = _session(request)
    return _answer(request, session.__enter__(), head)


def _answer(request: CertifyRequest, session: _Session, head: dict[str, Any]) -> Answer:
    classifier = session.classifier
    attack = None
    if request.attack_steps:
        attack = Attack(classifier, request.attack_steps, request.attack_starts, request.audit.seed)
    local = None
    if request.local_steps:
        local = PairConstants(classifier, find_constants(request.audit, classifier.simple, session.place))
    certifier = ImageCertifier(
        classifier, _bounds_from_json(classifier, head["bounds"]), attack, local, request.local_steps
    )

    def answer(chunk: Chunk) -> list[ImageRecord]:
        return certifier.certify([session.question(number) for number in chunk])

    return answer


def _bounds_to_json(bounds: GlobalBounds) -> dict[str, Any]:
    def plain(bound: PairBound) -> list[Any]:
        return [bound.upper if math.isfinite(bound.upper) else None, str(bound.rigor), bound.method]

    pairs = [[*pair, *plain(bound)] for pair, bound in bounds.pairs.items()]
    return {"logits": plain(bounds.logits), "features": plain(bounds.features), "pairs": pairs}


def _bounds_from_json(classifier: Classifier, entry: dict[str, Any]) -> GlobalBounds:
    def bound(upper: float | None, rigor: str, method: str) -> PairBound:
        return PairBound(math.inf if upper is None else upper, Rigor(rigor), method)

    pairs: dict[Pair, PairBound] = {(i, j): bound(*rest) for i, j, *rest in entry["pairs"]}
    return GlobalBounds(classifier.weight, bound(*entry["logits"]), bound(*entry["features"]), pairs)


def _settings(request: CertifyRequest, session: _Session) -> CertificationSettings:
    return CertificationSettings(
        images=request.images_text,
        labels=Path(request.labels).name if isinstance(request.labels, str) else None,
        units=session.units,
        mean=session.mean or None,
        std=session.std or None,
        effort=request.audit.search_effort,
        tolerance=request.audit.tol,
        local_steps=request.local_steps,
        attack_steps=request.attack_steps,
        attack_starts=request.attack_starts if request.attack_steps else 0,
        seed=request.audit.seed,
        device=session.place.type,
    )


def _identity(request: CertifyRequest, session: _Session) -> dict[str, Any]:
    """What tells runs apart whose chunks may not be mixed."""
    settings = encode(_settings(request, session))
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    return {
        **settings,
        "model": session.loaded.spec,
        "weights": state_dict_sha256(session.loaded.module),
        "digest": _digest(session.images),
        "version": __version__,
    }


def _digest(images: Images) -> str:
    labels = None if images.labels is None else images.labels.tolist()
    digest = hashlib.sha256(repr((images.names, labels)).encode())
    digest.update(stored_bytes(images.inputs))
    return digest.hexdigest()


def _record(
    request: CertifyRequest, session: _Session, bounds: GlobalBounds, images: Sequence[ImageRecord], created: str
) -> Certification:
    attacked = request.attack_steps > 0
    upper = bounds.logits.upper
    return Certification(
        model=model_record(session.loaded, session.network.graph, absolute_paths=request.audit.absolute_paths),
        settings=_settings(request, session),
        constant=ConstantRecord(
            upper if math.isfinite(upper) else None, str(bounds.rigor()), bounds.logits.method, len(bounds.pairs)
        ),
        accuracy=accuracy(images),
        radii=tuple(at_radius(images, radius, attacked) for radius in request.radii),
        curve=curve(images, request.radii, attacked),
        images=tuple(images),
        tool_version=__version__,
        created=created,
        environment=environment(),
        notes=(*session.loaded.notes, *graph_notes(session.network.graph), *_folders(request, session.images)),
    )
