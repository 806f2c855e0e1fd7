"""A comparison of norm methods on the layers of a network."""

from __future__ import annotations

import math

import lipaudit.rules  # noqa: F401  registers every rule
from lipaudit.auditing.assemble_comparison import layer_comparisons, method_comparisons, weights_without_rows
from lipaudit.auditing.capture import capture_model
from lipaudit.auditing.load import open_model
from lipaudit.auditing.method import find_compared
from lipaudit.auditing.notes import graph_notes
from lipaudit.auditing.placement import placed
from lipaudit.auditing.provenance import environment, model_record, timestamp
from lipaudit.auditing.request import CompareRequest
from lipaudit.network.domain import GLOBAL
from lipaudit.network.magnitudes import Extents
from lipaudit.network.method_comparison import compare_methods
from lipaudit.records.comparison import Comparison, ComparisonSettings
from lipaudit.spectral.precompute import Progress
from lipaudit.spectral.published.registry import Options
from lipaudit.user_code import exit_is_an_error
from lipaudit.version import __version__


def run_comparison(request: CompareRequest, progress: Progress | None = None) -> Comparison:
    """Carry out a comparison; what the options mean stands at :func:`lipaudit.compare`."""
    chosen = find_compared(request.methods, request.iterations)
    counts = {method.name: request.iterations if method.iterations is not None else None for method in chosen}
    options = [(m, Options(counts[m.name], seed=request.seed, tolerance=request.tol)) for m in chosen]
    with exit_is_an_error(request.arch or request.model):
        loaded = open_model(request)
        with placed(loaded, request.device) as place:
            network = capture_model(loaded, place)
            layers, results = compare_methods(
                network.simple,
                lambda: Extents(network.recognised, GLOBAL),
                options,
                math.inf if request.time_limit is None else request.time_limit,
                progress,
            )
            rows = layer_comparisons(layers, network.simple, loaded.node_names)
            taken = {m.name: m.iterations if counts[m.name] is None else counts[m.name] for m in chosen}
            return Comparison(
                model=model_record(loaded, network.graph),
                settings=ComparisonSettings(
                    tolerance=request.tol, seed=request.seed, device=place.type, time_limit=request.time_limit
                ),
                layers=rows,
                methods=method_comparisons(results, rows, network.simple, taken),
                tool_version=__version__,
                created=timestamp(),
                environment=environment(),
                notes=(*loaded.notes, *graph_notes(network.graph), *weights_without_rows(network.simple)),
            )
