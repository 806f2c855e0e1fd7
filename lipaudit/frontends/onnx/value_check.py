"""Comparison of a converted network with an independent implementation of ONNX, value by value, on random inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx
import torch

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.onnx.inputs import GraphInput
from lipaudit.frontends.onnx.network import OnnxNetwork
from lipaudit.frontends.onnx.operators import operator_name, to_numpy
from lipaudit.frontends.onnx.reference_runtime import Judge
from lipaudit.frontends.onnx.rounding_noise import Rounding, values_of

Array: TypeAlias = np.ndarray[Any, Any]
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_SCALES = (1.0, 10.0)  # the larger one reaches the flat parts of activations
_NOISE_FACTOR = 10.0
_DRAWS = 3
_ROWS = 256  # rows of a fixed batch that are compared, each by a run of its own
_AT_ONCE = 2**20  # entries that are compared in one step
_TINY = float(np.finfo(np.float32).tiny)
_TOGETHER = 2**28  # bytes of intermediate values that are compared in one run


def check_parity(
    module: OnnxNetwork,
    path: Path,
    model: onnx.ModelProto,
    inputs: Sequence[GraphInput],
    shapes: Mapping[str, tuple[int, ...]],
    batch: int = 1,
    held: Mapping[str, torch.Tensor] | None = None,
) -> tuple[str, float]:
    """Raise :class:`ModelLoadError` unless the network agrees with the file on random inputs; the judge's name and the tolerance.

    Onnxruntime judges wherever it has the kernels, ONNX's reference implementation what it does not run. Compared are the outputs and
    every value on the way that both name, so that an output that saturates hides nothing, and a refusal names the first node that
    differs. The largest difference must stay below 1e-4 of the largest entry (more for half precision), plus ten times what rounding
    on the way does to the value, see :mod:`lipaudit.frontends.onnx.rounding_noise`; in a file of several precisions the narrowest counts.
    With a ``batch`` of n the file gets n different samples, and every row of its outputs must be what the network makes of that sample
    alone; values on the way are then left out. ``held`` are the file's other inputs, which the network has as constants.
    """
    dtypes = _dtypes(model, inputs)
    comparison = _Comparison(module, model, batch, dtypes)
    generator = np.random.default_rng(0)
    groups = [()] if batch > 1 else comparison.groups(_samples(generator, inputs, shapes, batch, _SCALES[0]))
    judge = Judge(path, model, chain(*groups, comparison.outputs))
    constants = {name: to_numpy(_of_samples(tensor, batch)) for name, tensor in (held or {}).items()}
    for scale in _SCALES:
        samples = _samples(generator, inputs, shapes, batch, scale)
        feeds = {entry.name: to_numpy(sample) for entry, sample in zip(inputs, samples, strict=True)} | constants
        for position, group in enumerate(groups):
            comparison.compare(samples, judge, feeds, group, position == len(groups) - 1)
    return judge.name, comparison.tolerance


def _of_samples(held: torch.Tensor, batch: int) -> torch.Tensor:
    """The value of a held input for several samples: the same for each."""
    return held.expand(batch, *held.shape[1:]).contiguous() if batch > 1 and held.shape[:1] == (1,) else held


def _samples(
    generator: np.random.Generator,
    inputs: Iterable[GraphInput],
    shapes: Mapping[str, tuple[int, ...]],
    batch: int,
    scale: float,
) -> list[torch.Tensor]:
    samples = []
    for entry in inputs:
        shape = (batch, *shapes[entry.name][1:]) if batch > 1 else shapes[entry.name]
        array = np.asarray(generator.standard_normal(shape, dtype=np.float32) * np.float32(scale))
        samples.append(torch.from_numpy(array).to(entry.dtype))
    return samples


def _dtypes(model: onnx.ModelProto, inputs: Iterable[GraphInput]) -> set[torch.dtype]:
    """The floating types that the file computes in."""
    known = {
        onnx.TensorProto.DOUBLE: torch.float64,
        onnx.TensorProto.FLOAT: torch.float32,
        onnx.TensorProto.FLOAT16: torch.float16,
        onnx.TensorProto.BFLOAT16: torch.bfloat16,
    }
    types = {tensor.data_type for tensor in model.graph.initializer}
    for node in model.graph.node:
        types.update(a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to")
        types.update(a.t.data_type for a in node.attribute if node.op_type == "Constant" and a.name == "value")
    return {i.dtype for i in inputs} | {known[t] for t in types if t in known}


@dataclass(frozen=True)
class _Gap:
    """How much two arrays differ, and the largest entry of the second, over finite entries; infinite where shapes or kinds differ."""

    difference: float
    size: float
    text: str


def _gap(ours: Array, theirs: Array) -> _Gap:
    if ours.shape != theirs.shape:
        return _Gap(math.inf, 0.0, f"in shape: {list(ours.shape)} where it has {list(theirs.shape)}")
    first, second = ours.reshape(-1), theirs.reshape(-1)
    difference = size = 0.0
    for start in range(0, first.size, _AT_ONCE):
        a, b = (array[start : start + _AT_ONCE].astype(np.float64) for array in (first, second))
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
                return _Gap(math.inf, 0.0, "in which entries are finite")
            a, b = a[finite], b[finite]
        difference = max(difference, float(np.abs(a - b).max(initial=0.0)))
        size = max(size, float(np.abs(b).max(initial=0.0)))
    return _Gap(difference, size, f"by {difference:.3g}, values reach {size:.3g}")


def rows_compared(batch: int) -> int:
    """How many rows of a fixed batch are compared."""
    return len(_rows(batch))


def _rows(batch: int) -> list[int]:
    """All rows of a batch, or of a large one the first, the last and others at random."""
    if batch <= _ROWS:
        return list(range(batch))
    drawn = np.random.default_rng(0).choice(np.arange(1, batch - 1), _ROWS - 2, replace=False)
    return sorted({0, batch - 1, *map(int, drawn)})


class _Comparison:
    def __init__(self, module: OnnxNetwork, model: onnx.ModelProto, batch: int, dtypes: set[torch.dtype]) -> None:
        self.module, self.batch = module, batch
        self._rows = _rows(batch)
        self.tolerance = max(TOLERANCE[dtype] for dtype in dtypes)
        self.outputs = [output.name for output in model.graph.output]
        self._nodes = {name: node for node in model.graph.node for name in node.output if name}
        # casts to half precision inside the network stay what they are, so that there is no float64 version of it
        self._mixed = bool(dtypes & {torch.float16, torch.bfloat16}) and len(dtypes) > 1
        self._eps = max(float(torch.finfo(dtype).eps) for dtype in dtypes)

    def groups(self, samples: list[torch.Tensor]) -> list[tuple[str, ...]]:
        """The values on the way that the file names, too, in order, as many at once as memory allows."""
        names = {name for step in self.module.steps for name in step.outputs if name in self._nodes} - set(self.outputs)
        sizes = values_of(
            self.module, samples, names, self.outputs, read=lambda t: t.nbytes if t.is_floating_point() else None
        )
        groups: list[list[str]] = [[]]
        room = _TOGETHER
        for name, size in sizes.items():
            if size is None or name not in names:
                continue
            if size > room and groups[-1]:
                groups.append([])
                room = _TOGETHER
            groups[-1].append(name)
            room -= size
        return [tuple(group) for group in groups]

    def compare(
        self,
        samples: list[torch.Tensor],
        judge: Judge,
        feeds: Mapping[str, Array],
        names: tuple[str, ...],
        outputs: bool,
    ) -> None:
        """Raise :class:`ModelLoadError` where one of the values, or of the outputs, differs by more than rounding explains."""
        wanted = [*names, *dict.fromkeys(self.outputs if outputs else ())]
        with np.errstate(all="ignore"):
            theirs = judge.run(feeds, wanted)
        ours = self._evaluate(self.module, samples, names)
        gaps = {name: _gap(ours[name], self._compared(np.asarray(theirs[name]))) for name in wanted}
        doubtful = {name: gap for name, gap in gaps.items() if gap.difference > self.tolerance * max(gap.size, _TINY)}
        if not doubtful:
            return
        noise = self._noise(samples, names, {name: ours[name] for name in doubtful})
        for name in sorted(doubtful, key=self._position):
            gap = doubtful[name]
            if not gap.difference <= self.tolerance * gap.size + _NOISE_FACTOR * noise[name]:
                self._refuse(name, judge, gap.text)

    def _evaluate(
        self, module: OnnxNetwork, samples: list[torch.Tensor], names: tuple[str, ...], rounding: Rounding | None = None
    ) -> dict[str, Array]:
        """The network's values, one sample at a time."""
        rows = [
            values_of(
                module, [s[i : i + 1] for s in samples] if self.batch > 1 else samples, names, self.outputs, rounding
            )
            for i in self._rows
        ]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]} if self.batch > 1 else rows[0]

    def _compared(self, theirs: Array) -> Array:
        """The rows of the batch that are compared."""
        if len(self._rows) == self.batch or theirs.shape[:1] != (self.batch,):
            return theirs
        return theirs[self._rows]

    def _noise(self, samples: list[torch.Tensor], names: tuple[str, ...], ours: dict[str, Array]) -> dict[str, float]:
        """How far rounding moves values: the largest change among draws, from where the network's own rounding is away."""
        twin = self.module
        if not self._mixed:
            twin, samples = copy.deepcopy(self.module).double(), [s.double() for s in samples]
        operators = {name: operator_name(node) for name, node in self._nodes.items()}
        generator = torch.Generator().manual_seed(0)
        noise = dict.fromkeys(ours, 0.0)
        for _ in range(_DRAWS):
            rounding = Rounding(self._eps, operators, generator, None if self._mixed else torch.float64)
            moved = self._evaluate(twin, samples, names, rounding)
            for name, array in ours.items():
                change = np.abs(moved[name].astype(np.float64) - array.astype(np.float64))
                noise[name] = max(noise[name], float(change[np.isfinite(change)].max(initial=0.0)))
        return noise

    def _position(self, name: str) -> int:
        """Where in the file the value is computed."""
        return list(self._nodes).index(name) if name in self._nodes else -1

    def _refuse(self, name: str, judge: Judge, how: str) -> NoReturn:
        node = self._nodes.get(name)
        where = f"the output {name!r}" if name in self.outputs else f"the value {name!r}"
        if node is not None:
            where += f" of the node {node.name or node.output[0]!r} ({operator_name(node)})"
        batch = f" (the file fixes a batch of {self.batch}: export it with 1)" if self.batch > 1 else ""
        raise ModelLoadError(
            f"the conversion differs from {judge.name} first in {where}{batch} {how}: the file is not audited, because the bound "
            "would be that of another network"
        )
