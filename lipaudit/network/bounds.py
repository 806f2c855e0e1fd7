"""The table of network bounds, and the least of several.

Every bound in the table is computed and kept; the least is what a report prints. To add one, write its file in this package and add
one line to :data:`NETWORK_BOUNDS` (docs/adding_a_network_bound.md).

An estimate is no bound and is never compared with one: the least is taken among certified and numerical figures. Where no
method has such a figure, the first in the order of the table that has an estimate counts, then the first that says why there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lipaudit.errors import RegistryError
from lipaudit.network.bound import BoundFunction, NetworkBound, Problem, Result
from lipaudit.network.domain import GLOBAL
from lipaudit.network.forms.bound import quadratic_forms
from lipaudit.network.forms.recompute import by_certificate
from lipaudit.network.local.bound import jacobian_at_centre
from lipaudit.network.local.forms import forms_on_domain
from lipaudit.network.product_rule import product_rule
from lipaudit.network.propagate import Value, join_outputs
from lipaudit.rules.effect import Status
from lipaudit.rules.norm import Norm
from lipaudit.spectral.bracket import Rigor

NETWORK_BOUNDS: dict[str, BoundFunction] = {
    "product": product_rule,
    "jacobian at the centre": jacobian_at_centre,
    "forms": lambda problem: quadratic_forms(problem) if problem.domain is GLOBAL else forms_on_domain(problem),
}
# the methods that search, and are left out where no work is allowed
_SEARCHES = frozenset({"forms"})
# what computes the bound of a method again from a certificate, and searches nothing
_BY_CERTIFICATE: dict[str, BoundFunction] = {"forms": by_certificate}
# the methods that need a centre, and are left out over all inputs
_LOCAL = frozenset({"jacobian at the centre"})


def network_bounds(problem: Problem, wider: Sequence[Result] = ()) -> tuple[Result, ...]:
    """What every method in the table says of a network, in the order of the table.

    Methods that search are left out where ``problem.work`` allows no operations, and those around a centre over all inputs; with a
    ``problem.certificate`` nothing is searched. ``wider`` are
    the results on a domain that contains this one: they hold here as well, and of each method the smaller one counts.

    Raises:
        RegistryError: if a method returns another name than its own, or leaves out an output.
    """
    results = []
    known = {result.name: result for result in wider}
    for name, bound in NETWORK_BOUNDS.items():
        if problem.certificate is not None and name in _BY_CERTIFICATE:
            result = _BY_CERTIFICATE[name](problem)
        elif (name in _SEARCHES and problem.work <= 0) or (name in _LOCAL and problem.domain is GLOBAL):
            continue
        else:
            result = bound(problem)
        if result.name != name:
            raise RegistryError(f"the network bound {name} returned a result named {result.name}")
        if isinstance(result, NetworkBound) and set(result.outputs) != set(problem.graph.outputs):
            raise RegistryError(
                f"the network bound {name} must have one entry per output ({', '.join(problem.graph.outputs)}), "
                f"got {', '.join(result.outputs)}"
            )
        results.append(_smaller(result, known.get(name)))
    return tuple(results)


def _smaller(result: Result, wider: Result | None) -> Result:
    """A result, or the one on a wider domain where that is less."""
    if not isinstance(wider, NetworkBound) or wider.network.status is not Status.FINITE:
        return result
    if isinstance(result, NetworkBound) and _least([(result, result.network), (wider, wider.network)])[0] is result:
        return result
    return replace(wider, note="; ".join(part for part in ("the bound over all inputs", wider.note) if part))


def least(results: Sequence[Result], outputs: Sequence[str], norm: Norm = Norm.L2) -> NetworkBound:
    """The least bound of the network and of each output, each by the method that has it.

    Args:
        results: what the methods said, on one domain; at least one of them a :class:`NetworkBound`.
        outputs: the network's outputs (``graph.outputs``); one that is returned twice counts twice.
        norm: in which the bounds hold.

    Returns:
        the bound, named by the method that has the least figure of the network. The outputs' least figures together bound
        the network as well, L^2 <= sum of L_j^2; where that is less, the names of their methods stand together ("a + b").
    """
    bounds = [result for result in results if isinstance(result, NetworkBound)]
    each = {name: _least([(bound, bound.outputs[name]) for bound in bounds]) for name in dict.fromkeys(outputs)}
    values = {name: value for name, (_, value) in each.items()}
    joined = join_outputs([values[name] for name in outputs], norm)
    owners = tuple(dict.fromkeys(bound.name for bound, _ in each.values()))
    together = NetworkBound(" + ".join(owners), joined, values)
    best, network = _least([*((bound, bound.network) for bound in bounds), (together, joined)])
    return NetworkBound(best.name, network, values, best.note, best.certificate, best.segments, best.proof)


def _least(candidates: Sequence[tuple[NetworkBound, Value]]) -> tuple[NetworkBound, Value]:
    """The least bound; else the first estimate, else the first candidate. Of equal ones the first."""
    finite = [(bound, value) for bound, value in candidates if value.status is Status.FINITE]
    proved = [(bound, value) for bound, value in finite if value.rigor is not Rigor.ESTIMATE]
    if proved:
        return min(proved, key=lambda candidate: candidate[1].log_upper)
    return (finite or candidates)[0]
