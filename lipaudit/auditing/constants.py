"""The norms of a network's weights, and with them the constants of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

import lipaudit.rules  # noqa: F401  registers every rule
from lipaudit.auditing.request import AuditRequest
from lipaudit.graph.node import Graph
from lipaudit.graph.weights import weights
from lipaudit.network.propagate import evaluate_rules
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.norm import Norm
from lipaudit.spectral.cache import NormStore
from lipaudit.spectral.oracle import Norms, PublishedNorms, UnknownNorms
from lipaudit.spectral.precompute import KnownNorms, Progress
from lipaudit.spectral.published.registry import Options, find_method


@dataclass(frozen=True, eq=False)
class LayerConstants:
    """How norms are found, the effect of every node by its name, and where norms are kept from one audit to the next."""

    norms: Norms
    effects: Mapping[str, Effect]
    store: NormStore | None = None


def find_constants(
    request: AuditRequest, graph: Graph, place: torch.device, progress: Progress | None = None
) -> LayerConstants:
    """The constants of all operations of a simplified graph, with norms by the method of the request.

    In the l-infinity and l1 norm they are sums of moduli, and no method is asked.
    """
    if request.norm != "l2":
        norm, open_norms = Norm(request.norm), UnknownNorms()
        return LayerConstants(open_norms, evaluate_rules(graph, Settings(open_norms), progress, norm))
    norms, store = _norms(request, graph, place, progress)
    known = isinstance(norms, KnownNorms)  # they were found, and told to progress, beforehand
    return LayerConstants(norms, evaluate_rules(graph, Settings(norms), None if known else progress), store)


def _norms(
    request: AuditRequest, graph: Graph, place: torch.device, progress: Progress | None
) -> tuple[Norms, NormStore | None]:
    if request.structure:
        return UnknownNorms(), None
    if request.is_published:
        options = Options(iterations=request.iterations, seed=request.seed, tolerance=request.tol)
        return PublishedNorms(find_method(request.method), options), None
    store = None if request.cache is None else NormStore(Path(request.cache).expanduser())
    linear_maps = [(weight.name, linear_map) for weight in weights(graph) for linear_map in weight.linear_maps()]
    return KnownNorms(linear_maps, request.tol, place, store, progress), store
