"""From a model to its report: the audit, and the comparison of methods."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

import lipaudit.rules  # noqa: F401  registers every rule
from lipaudit.auditing.argument_types import channels, checks_arguments
from lipaudit.auditing.assemble import domain_record, layer_records, network_record
from lipaudit.auditing.assemble_comparison import layer_comparisons, method_comparisons, weights_without_rows
from lipaudit.auditing.domain import (
    DomainRequest,
    check_normalisation,
    override_preprocessing,
    pixels_of,
    resolve_domain,
)
from lipaudit.auditing.held_inputs import held_inputs
from lipaudit.auditing.method import OURS, find_compared, find_requested, requested_norms
from lipaudit.auditing.open import (
    Clock,
    InputShape,
    captured,
    check_settings,
    check_weights,
    environment,
    is_number,
    model_record,
    open_model,
    placed,
    remarks,
    timestamp,
)
from lipaudit.auditing.structure import layers_without_figures, network_without_figures
from lipaudit.auditing.structure import note as structure_note
from lipaudit.errors import CaptureError, GraphError, UsageError
from lipaudit.frontends import LoadedModel
from lipaudit.frontends.memory import allowed_memory
from lipaudit.frontends.module import Network
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.node import Graph
from lipaudit.network.bounds import network_bounds
from lipaudit.network.diameter import output_diameter
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.lower_bound import measured_lower_bound
from lipaudit.network.magnitudes import Extents
from lipaudit.network.method_comparison import compare_methods
from lipaudit.network.network_bound import Problem
from lipaudit.network.pair_file import check_pair_file, write_pair
from lipaudit.network.propagate import Propagation, evaluate_rules, propagate
from lipaudit.network.stretch import Pair
from lipaudit.option_names import names_arguments
from lipaudit.records.comparison import Comparison, ComparisonSettings
from lipaudit.records.report import AuditReport, NetworkRecord, SettingsRecord
from lipaudit.rules.effect import Settings, Status
from lipaudit.spectral.cache import NormStore
from lipaudit.spectral.oracle import Norms, UnknownNorms
from lipaudit.spectral.precompute import KnownNorms, Progress
from lipaudit.spectral.published.registry import Options
from lipaudit.text.local_paths import without_folders
from lipaudit.text.method import is_refuted
from lipaudit.version import __version__


@names_arguments
@checks_arguments
def audit(
    model: Network | str,
    input_shape: InputShape | None = None,
    *,
    fix: Mapping[str, object] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    device: str = "auto",
    tol: float = 1e-3,
    lower_bound: bool = False,
    save_pair: str | os.PathLike[str] | None = None,
    seed: int = 0,
    freeze_random: int | None = None,
    structure: bool = False,
    domain: str = "global",
    around: str | torch.Tensor | None = None,
    radius: float | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    method: str = OURS,
    iterations: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    absolute_paths: bool = False,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Bound how far a network can stretch a perturbation of its input, per layer and as a whole.

    The bound is sup ||f(x) - f(y)|| / ||x - y|| over all inputs x != y of the domain, l2 norms over all elements of one sample,
    for f in eval mode. With the default method it is certified: it holds for the real-arithmetic function that the stored weights
    define. Networks that multiply data-dependent tensors (attention, gating) have bounds of rigor ``numerical``: theorems too,
    up to the rounding of the values that were computed at the centre of the domain. With a published ``method`` a figure is at
    best ``numerical``, and often an ``estimate``, which is no bound.

    Args:
        model: an ``nn.Module`` (of TorchScript, too), an ``ExportedProgram``, or what a user would type: ``"resnet50"``,
            ``"model.onnx"``, ``"timm:resnet18.a1_in1k"``.
        input_shape: (3, 224, 224) for an image, (224, 224) or 224 where the model has a size of its own or its first layer
            tells the channels; a mapping from input names to full shapes with a batch axis of 1, taken literally; or the text that
            ``--input`` takes. Default: the model's own.
        fix: inputs that are held, with their values: tensors, arrays, numbers, None, or the text that ``--fix`` takes. They are
            constants of the audit, and the bound is in the other inputs. An optional argument of ``forward`` keeps its default
            unless it is named here or in ``input_shape``.
        weights, arch: as ``--weights`` and ``--arch`` on the command line; only for models given by text.
        device: "auto", "cpu" or "cuda": where the network itself runs (for ``lower_bound``). On a GPU lipaudit's own
            norms are found there, too, all together; in float64 everywhere.
        tol: upper / lower per layer is within 1 + tol where the operation's norm can be known that closely.
        lower_bound: also search for two inputs between which the whole network stretches much; what is measured between them
            is an empirical lower bound.
        save_pair: a file NAME.npz for these two inputs: arrays ``x.INPUT`` and ``y.INPUT``; with ``lower_bound`` only.
        seed: seeds that search, and the random start of a published method.
        freeze_random: a seed for random numbers that the network draws while it computes its weights (a power iteration that starts
            anew at every call): the audit is of the weights that this draw gives. Without it such a network has no bound.
        structure: only find out which operations and whether the network have a finite constant, in seconds: models given by
            name are built without weights, no norm is computed, the report has statuses and no figures.
        domain: "global" (all inputs), "pixels" (images with pixels in [0, 1], normalised as the model expects it) or "ball"
            (within ``radius`` of ``around``).
        around, radius: centre and radius of the ball. An image file counts in pixels in [0, 1], before the model's own
            normalisation; a tensor or tensor file (.npy, .pt) in the network's own input.
        mean, std: the normalisation (pixel - mean) / std, one number per channel or one for all, where the model's own is not
            known; not around a tensor.
        method: how the norms of convolutions and matrices are found: "gram" (certified) or the name of a published method
            (``lipaudit methods`` lists them), whose figures are ``numerical`` at best and may be estimates; those stand in
            fields named so.
        iterations: iterations or samples of the method, for those that have any; default: the number that
            ``lipaudit methods`` shows.
        cache: a folder that keeps lipaudit's own norms from one audit to the next, by the content of the weights; made if it
            does not exist. Other methods and ``structure`` have nothing to keep.
        absolute_paths: keep the folders of the model's and the centre's file in the report; without it a path outside the working
            directory is cut to its last part.
        max_memory: how much memory the tensors that a model file describes may take, in bytes or as text (``"16GB"``); default:
            4GB. A file that asks for more is refused before anything is computed.
        progress: called as progress(done, total, name) while layers are bounded.

    Returns:
        the report; ``report.network.status`` is "finite", "unbounded" or "unsupported".

    Raises:
        LipauditError: with the model, the place and what to do; see ``lipaudit.errors``.

    >>> import torch
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> report = audit(net, input_shape=(1, 2))
    >>> report.network.status, 4 <= report.network.upper_bound <= 4.004
    ('finite', True)
    """
    check_settings(tol, device, seed, freeze_random)
    check_weights(model, weights)
    published = find_requested(method, iterations)
    weights = None if structure and weights == "random" else weights  # neither is loaded
    if structure and (lower_bound or weights is not None or arch is not None):
        raise UsageError(
            "structure reads no weights: leave out weights (--weights), arch (--arch) and the lower bound (--lower-bound)"
        )
    if save_pair is not None:
        check_pair_file(os.fspath(save_pair), lower_bound)
    if structure and published is not None:
        raise UsageError("structure computes no norms: leave out the method (--method)")
    store = None if cache is None or structure or published is not None else NormStore(Path(cache).expanduser())
    request = DomainRequest(domain, around, radius)
    clock = Clock()
    means, stds = channels("mean", mean), channels("std", std)
    check_normalisation(means, stds, request)
    with allowed_memory(max_memory):
        loaded = open_model(model, input_shape, weights, arch, structure, fix)
    loaded = replace(loaded, preprocessing=override_preprocessing(loaded, means, stds))
    clock.lap("load")
    with placed(loaded, device, structure) as place:
        region = resolve_domain(request, loaded)
        network_in = captured(loaded, place, structure, freeze_random)
        inputs, simple = network_in.inputs, network_in.simple
        clock.lap("capture")
        norms: Norms = UnknownNorms()
        if not structure:
            norms = requested_norms(published, iterations, tol, seed, simple, place, store, progress)
        found_before = isinstance(norms, KnownNorms)
        effects = evaluate_rules(simple, Settings(norms), None if found_before else progress)
        clock.lap("norms")

        def bounded(domain: Domain, wider: Propagation | None = None) -> Problem:
            extents = Extents(network_in.recognised, domain, structure)
            return Problem(simple, domain, propagate(simple, effects, extents, wider), extents, norms)

        everywhere = bounded(GLOBAL)
        diameter = output_diameter(simple, everywhere.extents) if published is None and not structure else None
        problem = everywhere if region is GLOBAL else bounded(region, everywhere.propagation)
        found = problem.propagation
        bounds = network_bounds(problem)
        rows = layer_records(simple, found, loaded.node_names, loaded.module_paths)
        others = _other_domains(found, region, loaded)
        clock.lap("propagation")
        lower = None
        pair = None
        if lower_bound:
            pair = _lower_bound(network_in.graph, inputs, seed, region)
            lower = None if pair is None else pair.quotient
            clock.lap("lower bound")
        scale = loaded.preprocessing.std if loaded.preprocessing is not None and len(inputs) == 1 else None
        network = network_record(simple, bounds, rows, lower, scale, loaded.output_names, region.name)
        elsewhere = []
        for other in others:
            there = everywhere if other is GLOBAL else bounded(other, everywhere.propagation)
            layers = layer_records(simple, there.propagation, loaded.node_names, loaded.module_paths)
            elsewhere.append(domain_record(other.name, simple, network_bounds(there), layers, scale))
        network = replace(
            network,
            other_domains=tuple(elsewhere),
            output_diameter=diameter,
            lower_bound_distance=None if pair is None else pair.distance,
        )
        doubts = _weighed(network, lower)
        return AuditReport(
            model=model_record(loaded, network_in.graph, structure, absolute_paths),
            settings=SettingsRecord(
                method=method,
                iterations=None if published is None else iterations or published.iterations,
                tolerance=tol,
                device=place.type,
                seed=seed,
                structure=structure,
                freeze_random=freeze_random,
                fixed=held_inputs(loaded.fixed),
                domain=region.name,
                around=_shown(around, absolute_paths) if isinstance(around, str) else None,
                radius=radius,
                radius_in=None if radius is None else "pixels" if request.in_pixels else "input",
            ),
            network=network_without_figures(network) if structure else network,
            layers=layers_without_figures(rows) if structure else rows,
            tool_version=__version__,
            created=timestamp(),
            environment=environment(),
            notes=(
                *([structure_note(has_values(loaded.module))] if structure else []),
                *loaded.notes,
                *remarks(network_in.graph),
                *_frozen(freeze_random),
                *doubts,
                *_found(pair, lower_bound, save_pair),
                *_recalled(norms, store, absolute_paths),
            ),
            timings=clock.laps,
        )


@names_arguments
@checks_arguments
def compare(
    model: Network | str,
    input_shape: InputShape | None = None,
    *,
    methods: str | Sequence[str] | None = None,
    fix: Mapping[str, object] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    device: str = "auto",
    tol: float = 1e-3,
    seed: int = 0,
    iterations: int | None = None,
    time_limit: float | None = 60.0,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measure every convolution and dense layer of a network by several methods, beside certified bounds of its true norm.

    Batch norms are folded as in an audit. A figure below the certified lower bound is marked: it is provably no upper bound of
    that layer. The network's figure by each method is propagated over all inputs from the same figures.

    Args:
        model, input_shape, fix, weights, arch, device, tol, seed, max_memory: as for :func:`audit`; ``tol`` is that of the certified
            bounds.
        methods: names as ``lipaudit methods`` lists them, in a list or tuple, or as ``--methods`` takes them; default: every method.
        iterations: iterations or samples, for the methods that have any; default: the number that ``lipaudit methods`` shows
            for each.
        time_limit: seconds per method after which it measures nothing more, None for none. What has begun is finished.
        progress: called as progress(done, total, what) before each measurement.

    Raises:
        LipauditError: with the model, the place and what to do; see ``lipaudit.errors``.

    >>> from torch import nn
    >>> found = compare(nn.Linear(2, 2), methods=["sedghi2019"], input_shape=(1, 2))
    >>> found.layers[0].figures[0].below_lower_bound, found.methods[0].violations
    (False, 0)
    """
    check_settings(tol, device, seed)
    check_weights(model, weights)
    if time_limit is not None and not (is_number(time_limit) and 0 < time_limit < math.inf):
        raise UsageError(f"the time limit (--time-limit) is a number of seconds above 0, not {time_limit!r}")
    chosen = find_compared(methods, iterations)
    options = [(m, Options(iterations if m.iterations is not None else None, seed=seed, tolerance=tol)) for m in chosen]
    with allowed_memory(max_memory):
        loaded = open_model(model, input_shape, weights, arch, fix=fix)
    with placed(loaded, device) as place:
        network = captured(loaded, place)
        layers, results = compare_methods(
            network.simple,
            lambda: Extents(network.recognised, GLOBAL),
            options,
            math.inf if time_limit is None else time_limit,
            progress,
        )
        rows = layer_comparisons(layers, network.simple, loaded.node_names)
        taken = {m.name: m.iterations if o.iterations is None else o.iterations for m, o in options}
        return Comparison(
            model=model_record(loaded, network.graph),
            settings=ComparisonSettings(tolerance=tol, seed=seed, device=place.type, time_limit=time_limit),
            layers=rows,
            methods=method_comparisons(results, rows, network.simple, taken),
            tool_version=__version__,
            created=timestamp(),
            environment=environment(),
            notes=(*loaded.notes, *remarks(network.graph), *weights_without_rows(network.simple)),
        )


def _other_domains(found: Propagation, region: Domain, loaded: LoadedModel) -> list[Domain]:
    """The domains whose figures stand beside those of the domain in force: pixels where no global bound exists."""
    if region is not GLOBAL:
        return [GLOBAL]
    pixels = pixels_of(loaded) if found.network.status is Status.UNBOUNDED else None
    return [] if pixels is None else [pixels]


def _lower_bound(graph: Graph, inputs: Mapping[str, torch.Tensor], seed: int, region: Domain) -> Pair | None:
    try:
        return measured_lower_bound(graph, inputs, seed, region)
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CaptureError(
            f"the network's gradient cannot be computed ({reason}): leave out the lower bound (--lower-bound)"
        ) from error


def _found(pair: Pair | None, asked: bool, file: str | os.PathLike[str] | None) -> list[str]:
    """Where the two inputs of the lower bound are kept, or why there are none."""
    if pair is None:
        return (
            ["No lower bound was searched: the network is no graph of operations that can be evaluated."]
            if asked
            else []
        )
    if file is None:
        return []
    write_pair(pair, Path(file))
    return [f"The two inputs between which the lower bound was measured are in {Path(file).name}."]


def _frozen(seed: int | None) -> list[str]:
    """Which random numbers the figures rest on."""
    if seed is None:
        return []
    return [
        f"Random numbers that the network draws while it computes its weights are frozen at the seed {seed}: the figures are those of "
        "the weights that this draw gives, and say nothing of another draw."
    ]


def _shown(path: str, absolute: bool) -> str:
    return path if absolute else without_folders(path)


def _recalled(norms: Norms, store: NormStore | None, absolute_paths: bool) -> list[str]:
    """Which norms an earlier audit has found."""
    if store is None or not isinstance(norms, KnownNorms):
        return []
    file = _shown(str(store.file), absolute_paths)
    problem = norms.unsaved.replace(str(store.file), file)
    notes = [problem[0].upper() + problem[1:] + "."] if problem else []
    if norms.recalled:
        notes.append(
            f"{norms.recalled} of {norms.distinct} norms of weights were found by an earlier audit and taken from {file}."
        )
    return notes


def _weighed(network: NetworkRecord, lower: float | None) -> list[str]:
    """What a stretching that was measured says of the network's figure; rounding has been subtracted from it."""
    if lower is None:
        return []
    if network.upper_bound is not None and lower > network.upper_bound * (1 + 1e-9):
        raise GraphError(
            f"two inputs were found whose outputs differ by {lower:.9g} times their distance, above the upper bound "
            f"{network.upper_bound:.9g}: lipaudit or the captured graph is wrong, and no figure of this audit can be trusted; please "
            "report the model"
        )
    if is_refuted(network):
        return ["The estimate lies below a stretching that was measured: it is too small."]
    return []
