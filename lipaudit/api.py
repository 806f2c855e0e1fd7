"""The audit: from a model to its report."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata

import torch
from torch import nn
from torch.nn.parameter import is_lazy

import lipaudit.rules  # noqa: F401  registers every rule
from lipaudit import __version__
from lipaudit.errors import (
    CaptureError,
    DeviceUnavailableError,
    GraphError,
    LipauditError,
    ModelLoadError,
    NonFiniteWeightsError,
    UsageError,
)
from lipaudit.frontends import LoadedModel, load
from lipaudit.frontends.domains import (
    DomainRequest,
    check_normalisation,
    override_preprocessing,
    pixels_of,
    resolve_domain,
)
from lipaudit.frontends.module import wrap_module
from lipaudit.frontends.spec import parse_input
from lipaudit.graph.capture import capture
from lipaudit.graph.layers_by_hooks import UNCAPTURED, layers_by_hooks
from lipaudit.graph.node import Graph
from lipaudit.graph.placeholders import fill, has_values
from lipaudit.graph.recognise import recognise
from lipaudit.graph.simplify import fold
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.extents import Extents
from lipaudit.network.lower import jacobian_lower_bound
from lipaudit.network.propagate import Propagation, evaluate_rules, propagate
from lipaudit.report.assemble import domain_record, layer_records, network_record
from lipaudit.report.record import AuditReport, ModelRecord, SettingsRecord
from lipaudit.report.structure import NOTE as STRUCTURE
from lipaudit.report.structure import layers_without_figures, network_without_figures
from lipaudit.rules.registry import Settings, Status
from lipaudit.spectral.gram import check_tolerance
from lipaudit.spectral.norms import CertifiedNorms, UnknownNorms

_PACKAGES = ("torch", "torchvision", "timm", "onnx", "onnx2torch", "numpy")
InputShape = int | str | Sequence[int] | Mapping[str, Sequence[int]]
Progress = Callable[[int, int, str], None]


def audit(
    model: nn.Module | str,
    *,
    input_shape: InputShape | None = None,
    weights: str | None = None,
    arch: str | None = None,
    device: str = "auto",
    tol: float = 1e-3,
    lower_bound: bool = False,
    seed: int = 0,
    structure: bool = False,
    domain: str = "global",
    around: str | torch.Tensor | None = None,
    radius: float | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Bound how far a network can stretch a perturbation of its input, per layer and as a whole.

    The bound is sup ||f(x) - f(y)|| / ||x - y|| over all inputs x != y of the domain, l2 norms over all elements of one sample,
    for f in eval mode. Certified: it holds for the real-arithmetic function that the stored weights define. Networks that
    multiply data-dependent tensors (attention, gating) have bounds of rigor ``numerical``: theorems too, up to the rounding of
    the values that were computed at the centre of the domain.

    Args:
        model: an ``nn.Module`` or what a user would type: ``"resnet50"``, ``"model.onnx"``, ``"timm:resnet18.a1_in1k"``.
        input_shape: (3, 224, 224) for an image, or 224 where the model has a size of its own; a mapping from input names to
            full shapes with a batch axis of 1, taken literally; or the text that ``--input`` takes. Default: the model's own.
        weights, arch: as ``--weights`` and ``--arch`` on the command line; only for models given by text.
        device: "auto", "cpu" or "cuda": where the network itself runs (for ``lower_bound``). Norms are float64 on the CPU.
        tol: upper / lower per layer is within 1 + tol where the operation's norm can be known that closely.
        lower_bound: also search for a large Jacobian norm, an empirical lower bound of the whole network.
        seed: seeds that search.
        structure: only find out which operations and whether the network have a finite constant, in seconds: models given by
            name are built without weights, no norm is computed, the report has statuses and no figures.
        domain: "global" (all inputs), "pixels" (images with pixels in [0, 1], normalised as the model expects it) or "ball"
            (within ``radius`` of ``around``).
        around, radius: centre and radius of the ball. An image file counts in pixels in [0, 1], before the model's own
            normalisation; a tensor or tensor file (.npy, .pt) in the network's own input.
        mean, std: the normalisation (pixel - mean) / std, one number per channel or one for all, where the model's own is not
            known.
        progress: called as progress(done, total, name) while layers are bounded.

    Returns:
        the report; ``report.network.status`` is "finite", "unbounded" or "unsupported".

    Raises:
        LipauditError: with the model, the place and what to do; see ``lipaudit.errors``.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> report = audit(net, input_shape=(1, 2))
    >>> report.network.status, 4 <= report.network.upper_bound <= 4.004
    ('finite', True)
    """
    try:
        check_tolerance(tol)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError("no CUDA device is available here; use --device cpu")
    weights = None if structure and weights == "random" else weights  # neither is loaded
    if structure and (lower_bound or weights is not None or arch is not None):
        raise UsageError(
            "structure reads no weights: leave out weights (--weights), arch (--arch) and the lower bound (--lower-bound)"
        )
    request = DomainRequest(domain, around, radius)
    clock = _Clock()
    means, stds = _numbers(mean), _numbers(std)
    check_normalisation(means, stds)
    shapes = _shapes(input_shape)
    if isinstance(model, str):
        loaded = load(model, input_shapes=shapes, weights=weights, arch=arch, structure=structure)
    elif weights is not None or arch is not None:
        raise UsageError("weights and arch are for models given by name or file; this one already has its weights")
    else:
        loaded = wrap_module(model, shapes)
    loaded = replace(loaded, preprocessing=override_preprocessing(loaded, means, stds))
    clock.lap("load")
    with _named(loaded), _on_device(loaded.module, device) as place:
        if not structure:
            _check_finite(loaded.module)
        region = resolve_domain(request, loaded)
        inputs = _inputs(loaded, place)
        graph = _graph(loaded.module, inputs)
        recognised = recognise(fill(graph) if structure else graph)
        simple = fold(recognised)
        clock.lap("capture")
        effects = evaluate_rules(simple, Settings(UnknownNorms() if structure else CertifiedNorms(tol)), progress)
        clock.lap("norms")

        def over(domain: Domain) -> Propagation:
            inside = Extents(recognised, domain, structure)
            return propagate(simple, effects, inside, None if domain is GLOBAL else everywhere)

        everywhere = over(GLOBAL)
        found = everywhere if region is GLOBAL else over(region)
        rows = layer_records(simple, found, loaded.node_names)
        others = _other_domains(found, region, loaded)
        clock.lap("propagation")
        lower = None
        if lower_bound:
            lower = _lower_bound(loaded.module, inputs, seed, region)
            clock.lap("lower bound")
        scale = loaded.preprocessing.std if loaded.preprocessing is not None and len(inputs) == 1 else None
        network = network_record(simple, found, rows, lower, scale, loaded.output_names, region.name)
        elsewhere = []
        for other in others:
            there = everywhere if other is GLOBAL else over(other)
            elsewhere.append(domain_record(other.name, there, layer_records(simple, there, loaded.node_names), scale))
        network = replace(network, other_domains=tuple(elsewhere))
        # a Jacobian is computed in the network's own precision: a hair above the bound is its rounding
        if lower is not None and network.upper_bound is not None and lower > network.upper_bound * 1.01:
            raise GraphError(
                f"a Jacobian of norm {lower:.6g} was found above the upper bound {network.upper_bound:.6g}: lipaudit or the "
                "captured graph is wrong, and no figure of this audit can be trusted; please report the model"
            )
        return AuditReport(
            model=_model_record(loaded, graph, structure),
            settings=SettingsRecord(
                tolerance=tol,
                device=place.type,
                seed=seed,
                structure=structure,
                domain=region.name,
                around=around if isinstance(around, str) else None,
                radius=radius,
                radius_in=None if radius is None else "pixels" if request.in_pixels else "input",
            ),
            network=network_without_figures(network) if structure else network,
            layers=layers_without_figures(rows) if structure else rows,
            tool_version=__version__,
            created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            environment=_environment(),
            notes=(*([STRUCTURE] if structure else []), *loaded.notes, *_remarks(graph)),
            timings=clock.laps,
        )


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now


def _shapes(input_shape: InputShape | None) -> dict[str, tuple[int, ...]] | None:
    if input_shape is None:
        return None
    if isinstance(input_shape, str):
        return dict([parse_input(input_shape)])
    if isinstance(input_shape, int):
        return {"": (input_shape,)}
    if isinstance(input_shape, Mapping):
        return {name: tuple(shape) for name, shape in input_shape.items()}
    return {"": tuple(input_shape)}


@contextmanager
def _named(loaded: LoadedModel) -> Iterator[None]:
    """Put the model's name in front of an error that does not have it."""
    try:
        yield
    except LipauditError as error:
        message = str(error)
        if loaded.spec not in message and not isinstance(error, UsageError):
            error.args = (f"{loaded.spec}: {message}", *error.args[1:])
        raise


@contextmanager
def _on_device(module: nn.Module, device: str) -> Iterator[torch.device]:
    """The module on the requested device, and back where it was."""
    tensors = [*module.parameters(), *module.buffers()]
    original = tensors[0].device if has_values(module) and tensors else torch.device("cpu")
    target = original if device == "auto" else torch.device(device)
    if target == original or not tensors:
        yield original
        return
    module.to(target)
    try:
        yield target
    finally:
        module.to(original)


def _inputs(loaded: LoadedModel, device: torch.device) -> dict[str, torch.Tensor]:
    try:
        return {
            name: torch.zeros(shape, dtype=loaded.input_dtypes.get(name, torch.float32), device=device)
            for name, shape in loaded.input_shapes.items()
        }
    except RuntimeError as error:
        shapes = ", ".join(f"{name}: {shape}" for name, shape in loaded.input_shapes.items())
        raise UsageError(
            f"an input of this size does not fit into memory ({shapes}): give a smaller --input"
        ) from error


def _numbers(values: float | Sequence[float] | None) -> tuple[float, ...] | None:
    if isinstance(values, int | float):
        return (float(values),)
    return None if values is None else tuple(float(v) for v in values)


def _other_domains(found: Propagation, region: Domain, loaded: LoadedModel) -> list[Domain]:
    """The domains whose figures stand beside those of the domain in force: pixels where no global bound exists."""
    if region is not GLOBAL:
        return [GLOBAL]
    pixels = pixels_of(loaded) if found.network.status is Status.UNBOUNDED else None
    return [] if pixels is None else [pixels]


def _graph(module: nn.Module, inputs: Mapping[str, torch.Tensor]) -> Graph:
    """The network as a graph, or its layers one by one where it is none but runs on the inputs."""
    try:
        return capture(module, inputs)
    except CaptureError as error:
        return layers_by_hooks(module, inputs, error)


def _lower_bound(module: nn.Module, inputs: Mapping[str, torch.Tensor], seed: int, region: Domain) -> float:
    try:
        return jacobian_lower_bound(module, inputs, seed, region)
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CaptureError(
            f"the network's Jacobian cannot be computed ({reason}): leave out the lower bound (--lower-bound)"
        ) from error


def _check_finite(module: nn.Module) -> None:
    lazy = [name for name, p in [*module.named_parameters(), *module.named_buffers()] if is_lazy(p)]
    if lazy:
        raise ModelLoadError(
            f"{lazy[0]} has no shape yet (a lazy module): run the network once on an input before the audit"
        )
    if not has_values(module):
        raise ModelLoadError("the network is on the meta device: load its weights, or audit its structure alone")
    bad = [name for name, p in module.named_parameters() if p.is_floating_point() and not bool(torch.isfinite(p).all())]
    # a buffer may hold -inf on purpose (attention masks); where a rule reads one as a weight it is refused there
    for name, b in module.named_buffers():
        statistic = name.endswith(("running_mean", "running_var"))
        if b.is_floating_point() and bool((~torch.isfinite(b) if statistic else torch.isnan(b)).any()):
            bad.append(name)
    if bad:
        raise NonFiniteWeightsError(bad)


def state_dict_sha256(module: nn.Module) -> str:
    """SHA-256 over the sorted (name, dtype, shape, bytes) of the state dict: independent of order, tied tensors allowed."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            continue
        plain = tensor.detach().to("cpu").contiguous()
        digest.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")
    return digest.hexdigest()


def _model_record(loaded: LoadedModel, graph: Graph, structure: bool) -> ModelRecord:
    preprocessing = loaded.preprocessing
    return ModelRecord(
        spec=loaded.spec,
        source=loaded.source,
        weights=loaded.weights,
        input_shape=next(iter(loaded.input_shapes.values())),
        num_parameters=graph.num_parameters,
        state_dict_sha256=None if structure else state_dict_sha256(loaded.module),
        file_sha256=loaded.file_sha256,
        input_shapes=dict(loaded.input_shapes),
        unused_parameters=graph.unused_parameters,
        preprocessing={"mean": preprocessing.mean, "std": preprocessing.std} if preprocessing is not None else None,
    )


def _environment() -> dict[str, object]:
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "packages": packages,
        "threads": torch.get_num_threads(),
    }


def _remarks(graph: Graph) -> list[str]:
    remarks = []
    if any(node.op == UNCAPTURED for node in graph):
        remarks.append(
            "The network was not captured: the rows are the layers that ran on an input of zeros, each by itself, and "
            "nothing is claimed for the network."
        )
    if graph.constant_outputs:
        remarks.append(f"{graph.constant_outputs} output(s) do not depend on the input and are left out.")
    if len(graph.outputs) > 1:
        remarks.append(
            f"The network has {len(graph.outputs)} outputs; its bound is for all of them taken as one vector."
        )
    return remarks
