"""Sampled stretches of every node of a network, against the bounds that an audit claims for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, evaluate_rules, propagate
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.region.magnitude import slice_norm
from lipaudit.spectral.oracle import CertifiedNorms

F64 = torch.float64
LINEAR = (CONVOLUTION, DENSE, SCALE)
Point = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Audited:
    """A network's graphs with what was propagated over one domain."""

    recognised: Graph
    simple: Graph
    found: Propagation
    extents: Extents
    twins: Mapping[str, str]  # names in the recognised graph of what the nodes of the simplified one equal


def audited(module: nn.Module, shapes: Mapping[str, tuple[int, ...]], *domains: Domain) -> list[Audited]:
    """The network on each domain; the norms are computed once."""
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    graph = capture(module, {name: torch.zeros(shape, dtype=dtype) for name, shape in shapes.items()})
    recognised = recognise(graph)
    simple = fold(recognised)
    effects = evaluate_rules(simple, Settings(CertifiedNorms(1e-2)))
    results: list[Audited] = []
    for domain in domains:
        extents = Extents(recognised, domain)
        wider = results[0].found if results and domains[0] is GLOBAL else None
        found = propagate(simple, effects, extents, wider)
        results.append(Audited(recognised, simple, found, extents, _twins(recognised, simple)))
    return results


def _twins(recognised: Graph, simple: Graph) -> dict[str, str]:
    """What each node of the simplified graph is called in the recognised one.

    Folding a scale into the operation before it leaves the name of that operation for the scaled value, which is read off
    the readers; not off linear ones, which may have taken a scale in.
    """
    originals = {n.name: n for n in recognised}
    twins = {n.name: n.name for n in simple if n.payload is None or n.op not in LINEAR}
    for node in simple:
        twin = originals.get(node.name)
        if twin is not None and node.op not in LINEAR and len(twin.refs) == len(node.refs):
            for ref, original in zip(node.refs, twin.refs, strict=True):
                if ref.info == original.info:
                    twins[ref.name] = original.name
    for name, original in zip(simple.outputs, recognised.outputs, strict=True):
        twins[name] = original
    return twins


def values(audit: Audited, point: Point) -> dict[str, torch.Tensor]:
    """The values of all nodes with one output, by their name in the simplified graph."""
    found = interpret(audit.recognised, point, wanted=set(audit.twins.values()), dtype=F64)
    return {
        name: value
        for name, original in audit.twins.items()
        if isinstance(value := found[original], torch.Tensor) and value.is_floating_point()
    }


def excesses(audit: Audited, pairs: Iterator[tuple[Point, Point]]) -> list[str]:
    """Every node that some pair of inputs stretches by more than its bound, or that leaves its radii."""
    wrong = []
    outputs = list(dict.fromkeys(audit.simple.outputs))
    for x, y in pairs:
        distance = math.sqrt(sum(float((x[name] - y[name]).square().sum()) for name in x))
        first, second = values(audit, x), values(audit, y)
        for name in first:
            bound = audit.found.values[name]
            length = float((first[name] - second[name]).norm())
            # float64 rounding of two values that are close to each other
            noise = 1e-11 * (1 + float(first[name].norm()))
            if bound.status is Status.FINITE and length - noise > math.exp(min(700, bound.log_upper)) * distance:
                wrong.append(f"{name}: {(length - noise) / distance:.6g} > {math.exp(bound.log_upper):.6g}")
            wrong += _outside(audit, name, first[name])
        if audit.found.network.status is Status.FINITE:
            length = math.sqrt(sum(float((first[o] - second[o]).square().sum()) for o in outputs if o in first))
            if length > math.exp(min(700, audit.found.network.log_upper)) * distance * (1 + 1e-9) + 1e-9:
                wrong.append(f"network: {length / distance:.6g} > {math.exp(audit.found.network.log_upper):.6g}")
    return wrong


def _outside(audit: Audited, name: str, value: torch.Tensor) -> list[str]:
    radii = audit.extents.radii(name)
    if not radii.finite or radii.shape != tuple(value.shape):
        return []
    centre = audit.extents.centre(audit.twins[name])
    if centre is None:
        return []
    away = value - centre
    return [
        f"{name} over {sorted(axes)}: {slice_norm(away, axes):.6g} outside {math.exp(log):.6g}"
        for axes, log in radii.logs.items()
        if slice_norm(away, axes) > math.exp(min(700, log)) * (1 + 1e-8) + 1e-9 * (1 + float(centre.abs().max()))
    ]


def jacobian_norm(audit: Audited, point: Point, generator: torch.Generator, steps: int = 6) -> float:
    """The largest stretch of an infinitesimal change found by power iteration at a point, in float64."""
    names = list(point)
    x = [point[name].to(F64) for name in names]

    def outputs(*inputs: torch.Tensor) -> torch.Tensor:
        found = interpret(audit.recognised, dict(zip(names, inputs, strict=True)), dtype=F64)
        kept = [found[o] for o in audit.recognised.outputs]
        return torch.cat([v.reshape(-1) for v in kept if isinstance(v, torch.Tensor) and v.is_floating_point()])

    inputs = [t.detach().requires_grad_(True) for t in x]
    y = outputs(*inputs)
    if y.grad_fn is None:
        return 0.0
    u = torch.randn(y.shape, generator=generator, dtype=F64)
    best = 0.0
    for _ in range(steps):
        u = u / u.norm().clamp_min(1e-300)
        pulled = torch.autograd.grad(y, inputs, u, retain_graph=True, allow_unused=True)
        v = [torch.zeros_like(t) if p is None else p for p, t in zip(pulled, x, strict=True)]
        length = math.sqrt(sum(float(p.square().sum()) for p in v))
        best = max(best, length)  # ||J^T u|| for a unit vector u is at most ||J||
        if length == 0 or not math.isfinite(length):
            return best
        step = 1e-6 * (1 + math.sqrt(sum(float(t.square().sum()) for t in x))) / length
        with torch.no_grad():
            u = outputs(*(t + step * p for t, p in zip(x, v, strict=True))) - y
        if float(u.norm()) == 0:
            return best
    return best
