"""The bounds of a network: over the domain of the request, over those that stand beside it, and of the size of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.auditing.capture import Captured
from lipaudit.auditing.constants import LayerConstants
from lipaudit.auditing.domain import pixels_of
from lipaudit.auditing.load import Loaded
from lipaudit.auditing.request import AuditRequest
from lipaudit.errors.verification import WarmStartError
from lipaudit.network.bound import NetworkBound, Problem, Result
from lipaudit.network.bounds import least, network_bounds
from lipaudit.network.diameter import output_diameter
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.efforts import EFFORTS
from lipaudit.network.forms.certificate import Certificate, CertificateError
from lipaudit.network.forms.watch import Watch
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, Value, propagate
from lipaudit.network.shortcuts import find_shortcuts
from lipaudit.rules.effect import Status
from lipaudit.rules.norm import Norm
from lipaudit.spectral.precompute import Progress

_STATUSES = (Status.FINITE, Status.UNBOUNDED, Status.UNSUPPORTED)


@dataclass(frozen=True, eq=False)
class DomainBounds:
    """What holds on one domain: the product rule of every node, and every bound of the whole network."""

    domain: Domain
    propagation: Propagation
    bounds: tuple[Result, ...]


@dataclass(frozen=True, eq=False)
class Bounds:
    """The bounds over the domain of the request and over the ``others``; ``diameter`` bounds the size of the output.

    Of several balls ``domain`` is the one with the largest bound, the first of equal ones, and ``balls`` has the bound of each.
    """

    domain: DomainBounds
    others: tuple[DomainBounds, ...]
    diameter: float | None
    balls: tuple[Value, ...] = ()


def propagate_bounds(
    request: AuditRequest,
    loaded: Loaded,
    network: Captured,
    constants: LayerConstants,
    certificate: Certificate | None = None,
    watch: Watch | None = None,
    warm_start: Certificate | None = None,
    progress: Progress | None = None,
) -> Bounds:
    """Propagate the constants of all operations to the outputs, on every domain that the report shows.

    With a ``certificate`` nothing is searched: a bound by forms is what that proves. ``watch`` follows searches, and
    may end them; a search over all inputs starts at the numbers of ``warm_start``. ``progress`` is called before each of several balls.

    Raises :class:`~lipaudit.errors.UsageError` where that is the certificate of another architecture.
    """
    if request.norm != "l2":
        return _in_norm(Norm(request.norm), network, constants)
    watch = watch or Watch()
    work = EFFORTS[request.search_effort]
    shortcuts = find_shortcuts(network.simple, constants.effects, constants.norms, work)

    def problem(domain: Domain, wider: Propagation | None = None) -> Problem:
        extents = Extents(network.recognised, domain, request.structure)
        propagation = propagate(network.simple, constants.effects, extents, wider, shortcuts)
        return Problem(
            network.simple, domain, propagation, extents, constants.norms, work, certificate, watch, warm_start
        )

    everywhere = problem(GLOBAL)
    known = not (request.is_published or request.structure)
    diameter = output_diameter(network.simple, everywhere.extents) if known else None
    try:
        whole = DomainBounds(GLOBAL, everywhere.propagation, network_bounds(everywhere))
    except CertificateError as error:
        raise WarmStartError(str(request.warm_start), str(error)) from None

    def bounds(domain: Domain) -> DomainBounds:
        of_domain = problem(domain, everywhere.propagation)
        return DomainBounds(domain, of_domain.propagation, network_bounds(of_domain, whole.bounds))

    if loaded.balls:
        balls, worst, widest = list[Value](), None, None
        for number, each in enumerate(loaded.balls):
            if progress is not None:
                progress(number, len(loaded.balls), each.name)
            found = bounds(each.domain)
            value = least(found.bounds, network.simple.outputs).network
            balls.append(value)
            if widest is None or _extent(value) > _extent(widest):
                worst, widest = found, value
        assert worst is not None
        return Bounds(worst, (whole,), diameter, tuple(balls))
    if loaded.domain is not GLOBAL:
        return Bounds(bounds(loaded.domain), (whole,), diameter)
    return Bounds(whole, tuple(map(bounds, _other_domains(loaded, everywhere.propagation))), diameter)


def _extent(value: Value) -> tuple[int, float]:
    """What orders bounds by their size: nothing claimed is more than no bound, and that more than any bound."""
    return _STATUSES.index(value.status), value.log_upper if value.status is Status.FINITE else 0.0


def _in_norm(norm: Norm, network: Captured, constants: LayerConstants) -> Bounds:
    """The product rule over all inputs, in a norm in which no magnitudes are known."""
    propagation = propagate(network.simple, constants.effects, norm=norm)
    bound = NetworkBound("product", propagation.network, propagation.outputs)
    return Bounds(DomainBounds(GLOBAL, propagation, (bound,)), (), None)


def _other_domains(loaded: Loaded, propagation: Propagation) -> Sequence[Domain]:
    """The domains whose figures stand beside those over all inputs: pixels where no global bound exists."""
    pixels = pixels_of(loaded.model) if propagation.network.status is Status.UNBOUNDED else None
    return [] if pixels is None else [pixels]
