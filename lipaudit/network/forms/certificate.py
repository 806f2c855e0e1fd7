"""The numbers that prove a bound by forms: where the network is cut, the multipliers of every constraint, the metric of every cut.

Nothing of the search is used here or imported: whoever has a model and a certificate computes the bound again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.filters import NotRepresentableError
from lipaudit.network.forms.multipliers import count
from lipaudit.network.forms.part_constant import log_constant
from lipaudit.network.forms.proof import Part, proved_terms
from lipaudit.network.forms.restrictions import with_restrictions
from lipaudit.network.forms.spaces import DenseSpace, channels
from lipaudit.network.forms.steps import Linear, Program, Step
from lipaudit.network.forms.symbol_space import SymbolSpace
from lipaudit.network.propagate import Propagation

_FORMAT = "lipaudit certificate 1"
_KEY = "lipaudit"  # safetensors writes several entries of its metadata in any order
FORMS = ("entries", "frequencies", "constant")


class CertificateError(Exception):
    """A certificate is damaged, or does not fit the network; the message says where."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proof of a bound by forms.

    Attributes:
        cuts: the names of the tensors at which one part ends and the next begins, from the inputs on.
        forms: for each part "entries" (of a form on all entries), "frequencies", or "constant".
        multipliers: positive numbers, by the name of the output of every constraint.
        metrics: positive weights per channel, by the names of the cuts; 1 at the other ones.
        scales: the units that all of these are in (:mod:`lipaudit.network.rescaling`): positive numbers per channel, by the names of
            operations with constant weights; 1 for the others.

    One without parts proves nothing.
    """

    cuts: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    multipliers: Mapping[str, torch.Tensor] = field(default_factory=dict)
    metrics: Mapping[str, torch.Tensor] = field(default_factory=dict)
    scales: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """A safetensors file; the same certificate gives the same bytes."""
        from safetensors.torch import save

        tensors = {f"multipliers/{name}": value for name, value in self.multipliers.items()}
        tensors |= {f"metrics/{name}": value for name, value in self.metrics.items()}
        tensors |= {f"scales/{name}": value for name, value in self.scales.items()}
        about = {"format": _FORMAT, "cuts": list(self.cuts), "forms": list(self.forms)}
        return bytes(save({name: value.clone() for name, value in tensors.items()}, {_KEY: json.dumps(about)}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Certificate:
        """The certificate in the bytes of a file.

        Raises:
            CertificateError: if they hold none.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length]) if length < len(data) else {}
            about = json.loads(header["__metadata__"][_KEY])
            tensors = load(data)
        except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CertificateError("it is no certificate that lipaudit wrote") from error
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise CertificateError(f"it is no {_FORMAT!r}")
        cuts, forms = _texts(about.get("cuts")), _texts(about.get("forms"))
        if cuts is None or forms is None or len(forms) != len(cuts) + 1 or not set(forms) <= set(FORMS):
            raise CertificateError("its list of parts is damaged")
        kinds: dict[str, dict[str, torch.Tensor]] = {"multipliers": {}, "metrics": {}, "scales": {}}
        for key, value in tensors.items():
            kind, _, name = key.partition("/")
            if kind not in kinds:
                raise CertificateError(f"it has a tensor {key!r}")
            kinds[kind][name] = value
        return cls(cuts, forms, **kinds)


def _texts(value: object) -> tuple[str, ...] | None:
    """A list of texts; None for anything else."""
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        return None
    return tuple(value)


def proved_by(
    certificate: Certificate, program: Program, propagation: Propagation, work: float
) -> tuple[float, tuple[float, ...], list[Part]]:
    """log of the bound that a certificate proves of a network, every part's term, and the parts.

    ``work`` is how many operations its forms may take; the search took less of them.

    Raises:
        CertificateError: if it does not fit the network, or proves nothing.
    """
    parts = fitted(certificate, program, propagation)
    needed = sum(cost(part.program, part.space) for part in parts if part.space is not None)
    if needed > work:
        raise CertificateError(f"its forms take {needed:.2g} operations, where a search could take {work:g}")
    metrics = {name: certificate.metrics[name] for name in certificate.cuts if name in certificate.metrics}
    try:
        log_upper, terms = proved_terms(parts, certificate.multipliers, metrics)
    except InfeasibleError as error:
        raise CertificateError(f"its multipliers prove nothing at {error}") from error
    return log_upper, terms, parts


def fitted(certificate: Certificate, program: Program, propagation: Propagation) -> list[Part]:
    """The parts of a network between the cuts of a certificate that has the numbers of every one of them.

    Raises:
        CertificateError: if it does not fit the network.
    """
    pieces = cut(program, certificate.cuts)
    parts = [_part(piece, form, propagation) for piece, form in zip(pieces, certificate.forms, strict=True)]
    for part in parts:
        if part.space is not None:
            for step in part.program.steps:
                if not isinstance(step, Linear):
                    name = step.output.name
                    _check(certificate.multipliers, name, count(step, part.space), "multipliers of the operation")
    for piece in pieces[1:]:
        (source,) = piece.inputs
        if source.name in certificate.metrics:
            _check(certificate.metrics, source.name, channels(source), "weights of the cut")
    return parts


def cut(program: Program, names: Sequence[str]) -> list[Program]:
    """The parts of a program between given tensors, at each of which nothing else is alive.

    Raises:
        CertificateError: if something else is alive at one of them, or it does not exist.
    """
    last_read = {source.name: position for position, step in enumerate(program.steps) for source in step.sources}
    for output in program.outputs:
        last_read[output.name] = len(program.steps)
    alive = {tensor.name for tensor in program.inputs}
    pieces: list[Program] = []
    sources, steps, wanted = program.inputs, list[Step](), list(names)
    for position, step in enumerate(program.steps):
        steps.append(step)
        alive.add(step.output.name)
        alive = {name for name in alive if last_read.get(name, -1) > position}
        if wanted and step.output.name == wanted[0]:
            if alive != {step.output.name} or step.output in program.outputs:
                raise CertificateError(
                    f"the network cannot be cut at {step.output.name!r}, where other tensors are alive"
                )
            pieces.append(Program(sources, (step.output,), tuple(steps)))
            sources, steps = (step.output,), []
            wanted.pop(0)
    if wanted:
        raise CertificateError(f"the network has no operation {wanted[0]!r} behind the cuts before")
    return [*pieces, Program(sources, program.outputs, tuple(steps))]


def _part(program: Program, form: str, propagation: Propagation) -> Part:
    if form == "constant":
        return Part(program, None, log_constant(program, propagation))
    if form == "entries":
        return Part(program, DenseSpace(), 0.0)
    try:
        restricted = with_restrictions(program)
        return Part(restricted, SymbolSpace(restricted), 0.0)
    except NotRepresentableError as error:
        raise CertificateError(f"a part has no matrix per frequency: {error}") from error


def _check(numbers: Mapping[str, torch.Tensor], name: str, size: int, what: str) -> None:
    """Raise :class:`CertificateError` where numbers are missing, of another size, or not positive."""
    values = numbers.get(name)
    if values is None:
        raise CertificateError(f"it lacks {size} {what} {name!r}")
    if values.dtype != torch.float64 or tuple(values.shape) != (size,):
        sizes = "x".join(map(str, values.shape)) or "1"
        raise CertificateError(
            f"it has {sizes} {str(values.dtype).removeprefix('torch.')} {what} {name!r}, not {size} float64"
        )
    if not bool(((values > 0) & torch.isfinite(values)).all()):
        raise CertificateError(f"the {what} {name!r} are not positive and finite")
