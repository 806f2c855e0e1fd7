"""From what a user names to a network that can be computed on: loaded, placed, captured, and the records of it."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from lipaudit.errors import (
    CaptureError,
    DeviceUnavailableError,
    LipauditError,
    ModelLoadError,
    NonFiniteWeightsError,
    NoTensorError,
    UsageError,
)
from lipaudit.frontends import LoadedModel, load
from lipaudit.frontends.held_inputs import describe, read_fixed
from lipaudit.frontends.module import Network, wrap_module
from lipaudit.frontends.spec import Kind, parse_input, parse_spec
from lipaudit.graph.capture.agreement import disagreement
from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.layerwise import UNCAPTURED, layers_by_hooks
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.decomposition import decompose
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.graph.passes.unknown_weights import replace_unknown_weights
from lipaudit.records.report import ModelRecord
from lipaudit.rules.rule import has_rule
from lipaudit.spectral.fingerprint import stored_bytes
from lipaudit.spectral.matrix.gram import check_tolerance
from lipaudit.spectral.rounding import is_finite
from lipaudit.text.local_paths import without_folders

_PACKAGES = ("torch", "torchvision", "timm", "onnx", "onnx2torch", "numpy")
_DEVICES = ("auto", "cpu", "cuda")
InputShape = int | str | Sequence[int] | Mapping[str, Sequence[int]]


class Clock:
    """Seconds per phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the phase that began with the clock or the last lap."""
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now


@dataclass(frozen=True, eq=False)
class Captured:
    """A network on zeros of its input's shape: ``graph`` as captured, ``recognised`` equal to it, ``simple`` with scales folded."""

    inputs: dict[str, torch.Tensor]
    graph: Graph
    recognised: Graph
    simple: Graph


def check_settings(tol: float, device: str, seed: int, freeze: int | None = None) -> None:
    """Refuse a tolerance that means nothing, a device that is not there, and what is no seed."""
    if not is_number(tol):
        raise UsageError(f"the tolerance (--tol) is a number, not {tol!r}")
    if device not in _DEVICES:
        raise UsageError(f"there is no device {device!r}: choose one of {', '.join(_DEVICES)} (--device)")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise UsageError(f"a seed (--seed) is a whole number from 0 to 2^63 - 1, not {seed!r}")
    if freeze is not None and (not isinstance(freeze, int) or isinstance(freeze, bool) or not 0 <= freeze < 2**63):
        raise UsageError(
            f"the seed of frozen random numbers (--freeze-random) is a whole number from 0 to 2^63 - 1, not {freeze!r}"
        )
    try:
        check_tolerance(tol)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError("no CUDA device is available here; use --device cpu")


def check_weights(model: Network | str, weights: str | None) -> None:
    """Refuse random weights for what makes its own."""
    if weights == "random" and isinstance(model, str) and parse_spec(model).kind is Kind.FACTORY:
        raise UsageError(
            f"{model} makes its own weights, and lipaudit draws none for it: leave out weights (--weights random) to keep "
            "them, or name a file of weights"
        )


def is_number(value: object) -> bool:
    """Whether a value is an integer or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def open_model(
    model: Network | str,
    input_shape: InputShape | None,
    weights: str | None,
    arch: str | None,
    structure: bool = False,
    fix: Mapping[str, object] | None = None,
) -> LoadedModel:
    """The network that a user named or gave, with the inputs of ``fix`` held at their values."""
    loaded = _opened(model, _shapes(input_shape), weights, arch, structure, read_fixed(fix))
    held = describe(loaded.fixed)
    return replace(loaded, notes=(*loaded.notes, held)) if held else loaded


def _opened(
    model: Network | str,
    shapes: dict[str, tuple[int, ...]] | None,
    weights: str | None,
    arch: str | None,
    structure: bool,
    fixed: Mapping[str, object],
) -> LoadedModel:
    if isinstance(model, str):
        return load(model, input_shapes=shapes, weights=weights, arch=arch, structure=structure, fixed=fixed)
    if weights is not None or arch is not None:
        raise UsageError("weights and arch are for models given by name or file; this one already has its weights")
    return wrap_module(model, shapes, fixed)


@contextmanager
def placed(loaded: LoadedModel, device: str, structure: bool = False) -> Iterator[torch.device]:
    """The network on the requested device with weights that can be bounded; errors inside get the model's name."""
    # an audit takes derivatives, whatever the caller has switched off
    with torch.inference_mode(False), _named(loaded), _on_device(loaded.module, device) as place:
        if not structure:
            _check_finite(loaded.module)
        yield place


def captured(loaded: LoadedModel, place: torch.device, structure: bool = False, freeze: int | None = None) -> Captured:
    """The network as a graph; ``structure`` fills the places of weights that were never read, ``freeze`` seeds what computes weights."""
    inputs = zero_inputs(loaded, place)
    graph = graph_of(loaded.module, inputs, freeze)
    _check_read(graph, loaded.unnamed)
    recognised = recognise(replace_unknown_weights(graph) if structure else graph)
    return Captured(inputs, graph, recognised, fold(recognised))


def _check_read(graph: Graph, unnamed: Sequence[str]) -> None:
    """Refuse an input that only fits into the ``**`` of forward and that nothing reads: its name is wrong."""
    for name in _unread(graph):
        if name in unnamed:
            raise UsageError(
                f"the network does not read the input {name!r}, which forward takes among its further keywords (**) only: check the name"
            )


def _unread(graph: Graph) -> list[str]:
    read = {ref.name for node in graph for ref in node.refs} | set(graph.outputs)
    return [name for name in graph.inputs if name not in read]


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


def zero_inputs(loaded: LoadedModel, device: torch.device) -> dict[str, torch.Tensor]:
    """Zeros of the shapes and types that a network reads."""
    try:
        return {
            name: torch.zeros(shape, dtype=loaded.input_dtypes.get(name, torch.float32), device=device)
            for name, shape in loaded.input_shapes.items()
        }
    except (RuntimeError, TypeError, OverflowError) as error:
        shapes = ", ".join(f"{name}: {shape}" for name, shape in loaded.input_shapes.items())
        raise UsageError(
            f"an input of this size does not fit into memory ({shapes}): give a smaller --input"
        ) from error


def graph_of(module: nn.Module, inputs: Mapping[str, torch.Tensor], freeze: int | None = None) -> Graph:
    """The network as a graph, or its layers one by one where it is none but runs on the inputs.

    Operations without a rule are in pieces, and the graph of the pieces is compared with the module as well.
    """
    try:
        graph = capture(module, inputs, freeze)
        pieces = decompose(graph, has_rule)
        found = None if pieces is graph else disagreement(module, inputs, pieces, freeze)
        if found is not None:
            raise CaptureError(f"an operation was decomposed wrongly: {found}")
        return pieces
    except NoTensorError:
        raise
    except CaptureError as error:
        return decompose(layers_by_hooks(module, inputs, error), has_rule)


def _check_finite(module: nn.Module) -> None:
    lazy = [name for name, p in [*module.named_parameters(), *module.named_buffers()] if is_lazy(p)]
    if lazy:
        raise ModelLoadError(
            f"{lazy[0]} has no shape yet (a lazy module): run the network once on an input before the audit"
        )
    if not has_values(module):
        raise ModelLoadError("the network is on the meta device: load its weights, or audit its structure alone")
    bad = [name for name, p in module.named_parameters() if p.is_floating_point() and not is_finite(p.detach())]
    # a buffer may hold -inf on purpose (attention masks); where a rule reads one as a weight it is refused there
    for name, b in module.named_buffers():
        statistic = name.endswith(("running_mean", "running_var"))
        numbers = b if b.layout is torch.strided else b.values() if b.is_sparse_csr else b.coalesce().values()
        if b.is_floating_point() and bool((~torch.isfinite(numbers) if statistic else torch.isnan(numbers)).any()):
            bad.append(name)
    if bad:
        raise NonFiniteWeightsError(bad)


def state_dict_sha256(module: nn.Module) -> str:
    """SHA-256 over the sorted (name, dtype, shape, bytes) of the state dict: independent of order, tied tensors allowed."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            continue
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(stored_bytes(tensor))
    return digest.hexdigest()


def model_record(
    loaded: LoadedModel, graph: Graph, structure: bool = False, absolute_paths: bool = False
) -> ModelRecord:
    """Which model was opened; ``absolute_paths`` keeps the folders of its file."""
    preprocessing = loaded.preprocessing
    return ModelRecord(
        spec=loaded.spec if absolute_paths else without_folders(loaded.spec),
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


def environment() -> dict[str, object]:
    """Where this runs."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "packages": packages,
        "threads": torch.get_num_threads(),
    }


def timestamp() -> str:
    """Now, in ISO 8601, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def remarks(graph: Graph) -> list[str]:
    """What a reader must know of a captured network."""
    found = []
    if any(node.op == UNCAPTURED for node in graph):
        found.append(
            "The network was not captured: the rows are the layers that ran on an input of zeros, each by itself, and "
            "nothing is claimed for the network."
        )
    if len(graph.inputs) > 1 or not graph.outputs:
        found += [f"The network does not read its input {name!r}: no output depends on it." for name in _unread(graph)]
    if graph.constant_outputs:
        found.append(f"{graph.constant_outputs} output(s) do not depend on the input and are left out.")
    if len(graph.outputs) > 1:
        found.append(f"The network has {len(graph.outputs)} outputs; its bound is for all of them taken as one vector.")
    return found
