"""The notes of a report: what a reader must know of the network and of how the figures were found."""

from __future__ import annotations

from pathlib import Path

from lipaudit.auditing.capture import unread_inputs
from lipaudit.auditing.constants import LayerConstants
from lipaudit.auditing.request import AuditRequest
from lipaudit.auditing.structure import note as structure_note
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.graph.capture.layerwise import UNCAPTURED
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.node import Graph
from lipaudit.network.forms.watch import Watch
from lipaudit.network.stretch import Pair
from lipaudit.records.report import NetworkRecord
from lipaudit.spectral.precompute import KnownNorms
from lipaudit.text.local_paths import without_folders
from lipaudit.text.method import is_refuted


def audit_notes(
    request: AuditRequest,
    loaded: LoadedModel,
    graph: Graph,
    constants: LayerConstants,
    pair: Pair | None,
    network: NetworkRecord,
) -> tuple[str, ...]:
    """All notes of an audit, in the order of its steps."""
    return (
        *([structure_note(has_values(loaded.module))] if request.structure else []),
        *loaded.notes,
        *graph_notes(graph),
        *_frozen_notes(request.freeze_random),
        *_estimate_notes(network, pair),
        *_pair_notes(request, pair),
        *_cache_notes(request, constants),
    )


def graph_notes(graph: Graph) -> list[str]:
    """What a captured network leaves out."""
    notes = []
    if any(node.op == UNCAPTURED for node in graph):
        notes.append(
            "The network was not captured: the rows are the layers that ran on an input of zeros, each by itself, and "
            "nothing is claimed for the network."
        )
    if len(graph.inputs) > 1 or not graph.outputs:
        notes += [
            f"The network does not read its input {name!r}: no output depends on it." for name in unread_inputs(graph)
        ]
    if graph.constant_outputs:
        notes.append(f"{graph.constant_outputs} output(s) do not depend on the input and are left out.")
    if len(graph.outputs) > 1:
        notes.append(f"The network has {len(graph.outputs)} outputs; its bound is for all of them taken as one vector.")
    return notes


def _frozen_notes(seed: int | None) -> list[str]:
    """Which random numbers the figures rest on."""
    if seed is None:
        return []
    return [
        f"Random numbers that the network draws while it computes its weights are frozen at the seed {seed}: the figures are those of "
        "the weights that this draw gives, and say nothing of another draw."
    ]


def _estimate_notes(network: NetworkRecord, pair: Pair | None) -> list[str]:
    refuted = pair is not None and is_refuted(network)
    return ["The estimate lies below a stretching that was measured: it is too small."] if refuted else []


def _pair_notes(request: AuditRequest, pair: Pair | None) -> list[str]:
    """Where the two inputs of the lower bound are kept, or why there are none."""
    if pair is None and request.searches:
        return ["No lower bound was searched: the network is no graph of operations that can be evaluated."]
    if pair is None or request.save_pair is None:
        return []
    return [f"The two inputs between which the lower bound was measured are in {Path(request.save_pair).name}."]


def _cache_notes(request: AuditRequest, constants: LayerConstants) -> list[str]:
    """Which norms an earlier audit has found."""
    store, norms = constants.store, constants.norms
    if store is None or not isinstance(norms, KnownNorms):
        return []
    file = str(store.file) if request.absolute_paths else without_folders(str(store.file))
    problem = norms.unsaved.replace(str(store.file), file)
    notes = [problem[0].upper() + problem[1:] + "."] if problem else []
    if norms.recalled:
        notes.append(
            f"{norms.recalled} of {norms.distinct} norms of weights were found by an earlier audit and taken from {file}."
        )
    return notes


def search_notes(watch: Watch) -> list[str]:
    """That the search for a tighter bound was ended before its time."""
    if not watch.interruption:
        return []
    return [
        f"The search for a tighter bound was {watch.interruption}: what it had reached is proved, but another run need not "
        "reach the same."
    ]
