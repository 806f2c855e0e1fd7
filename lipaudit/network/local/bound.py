"""The bound ||J(c)|| + sup ||J(x) - J(c)|| of a network on a ball or a box, c its centre.

A Lipschitz constant on a convex set is at most the supremum of the norm of the Jacobian there. As the radius falls to 0 the bound tends
to the norm of the Jacobian at the centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

from lipaudit.graph.node import Graph
from lipaudit.network.bound import NetworkBound, NotApplicable, Problem, Result
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.local.linearise import Linearisation, NotLinearisableError
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, Value, join_outputs, propagate
from lipaudit.rules.effect import Effect, Status
from lipaudit.spectral.bracket import Rigor, log_up
from lipaudit.spectral.oracle import Norms

NAME = "jacobian at the centre"
# Operations that this bound may spend without being asked for a search.
_WORK = 2e10
# of the magnitudes on a domain, as long as they are in use, with chords or without, in pieces or whole
_KNOWN: WeakKeyDictionary[Extents, dict[tuple[bool, bool], Linearisation | NotLinearisableError]] = WeakKeyDictionary()


def jacobian_at_centre(problem: Problem) -> Result:
    """The bound of all outputs together and of every output by itself; numerical, because derivatives are rounded."""
    if not problem.graph.outputs:
        return NotApplicable(NAME, "The outputs do not depend on the input.")
    try:
        lines = linearise(problem)
        network, each = _bounds(lines, problem.graph.outputs)
        for other, others in _bounds_of_whole_operations(problem, lines):
            network, each = _smaller(network, other), {name: _smaller(v, others[name]) for name, v in each.items()}
    except NotLinearisableError as error:
        return NotApplicable(NAME, f"The network has no such bound: {error}.")
    if network.status is not Status.FINITE:
        return NotApplicable(NAME, "The Jacobian at the centre is not finite.")
    return NetworkBound(NAME, network, each)


def _bounds(lines: Linearisation, names: Sequence[str]) -> tuple[Value, dict[str, Value]]:
    """Of all outputs together, and of each; ``names`` are those of the simplified graph.

    An operation that a scale was folded into has the scaled values under the same name there, so that the outputs are those of the graph
    that is linearised, in the same order.
    """
    own = dict(zip(names, lines.graph.outputs, strict=True))
    each = {name: _value(lines.bounds(lines.outputs([output])).norm) for name, output in own.items()}
    if len(names) == 1:
        return each[names[0]], each
    together = _value(lines.bounds(lines.outputs(lines.graph.outputs)).norm)
    return _smaller(together, join_outputs([each[n] for n in names])), each


def _bounds_of_whole_operations(problem: Problem, lines: Linearisation) -> Iterator[tuple[Value, dict[str, Value]]]:
    """The bounds where nothing is written as other operations, if there are any: constants of parts grow faster with the radius."""
    if not lines.written_out:
        return
    try:
        whole = linearise(problem, whole=True)
    except NotLinearisableError:  # an operation has no constant as a whole
        return
    yield _bounds(whole, problem.graph.outputs)


def problem_on(
    domain: Domain,
    recognised: Graph,
    simple: Graph,
    effects: Mapping[str, Effect],
    norms: Norms,
    wider: Propagation | None = None,
    work: float = 0.0,
) -> Problem:
    """The problem of a captured network on a domain: for many centres a network is captured, and its norms are computed, once.

    Args:
        domain: the inputs, for instance :func:`lipaudit.network.domain.ball`.
        recognised, simple: the two graphs of the network.
        effects: the constants of every operation (:func:`lipaudit.network.propagate.evaluate_rules`), as the rules gave them.
        norms: how norms are found.
        wider: the product rule on a domain that contains this one.
        work: floating-point operations that one bound may spend on a search.
    """
    extents = Extents(recognised, domain)
    return Problem(simple, domain, propagate(simple, effects, extents, wider), extents, norms, work)


def linearise(problem: Problem, chords: bool = False, whole: bool = False) -> Linearisation:
    """The linearisation of a network at the centre of the domain of a problem, for bounds of any combination of its outputs.

    It is computed once for a problem. ``chords``: with the chords of functions of each entry, for bounds of how far values stray.
    ``whole``: without operations that are written as others.

    Raises:
        NotLinearisableError: if the network has none, or it would take more work than the problem allows.
    """
    if problem.domain is GLOBAL:
        raise NotLinearisableError("all inputs have no centre")
    if not problem.norms.weights_known:
        raise NotLinearisableError("its weights are not known")
    if any(e.status is Status.FINITE and e.rigor is Rigor.ESTIMATE for e in problem.propagation.effects.values()):
        raise NotLinearisableError("the constants of its operations are estimates")
    both = _KNOWN.setdefault(problem.extents, {})
    if (chords, whole) not in both:
        both[chords, whole] = _linearised(problem, chords, whole)
    known = both[chords, whole]
    if isinstance(known, NotLinearisableError):
        raise known
    return known


def _linearised(problem: Problem, chords: bool, only_whole: bool) -> Linearisation | NotLinearisableError:
    work = max(_WORK, problem.work)
    known: Linearisation | NotLinearisableError
    for whole in (
        (True,) if only_whole else (False, True)
    ):  # written as others, operations may take more work, or have no constants
        try:
            graphs = problem.extents.graph, problem.domain, problem.propagation, problem.graph
            return Linearisation(*graphs, work, chords, whole)
        except NotLinearisableError as error:
            known = error
    return known


def _value(norm: float) -> Value:
    if not math.isfinite(norm):
        return Value(Status.UNBOUNDED)
    return Value(Status.FINITE, -math.inf if norm == 0 else log_up(norm), Rigor.NUMERICAL)


def _smaller(first: Value, second: Value) -> Value:
    return second if second.log_upper < first.log_upper else first
