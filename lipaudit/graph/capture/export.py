"""Capture of a network as a graph of ATen operations by ``torch.export``.

The exported program is made functional first (in-place operations read through an alias would otherwise be lost),
high-level operations are kept. Everything that depends on weights alone is evaluated with the real tensors in float64, and
becomes a constant of the operations that read it, with a bound of how far it is from what the stored numbers define: the audited
function is the real-arithmetic function of the stored numbers. Operations that read only the shape of their input become
constants, too (:mod:`lipaudit.graph.constants`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from lipaudit.errors import CaptureError, GraphError, NoTensorError, is_out_of_memory
from lipaudit.errors.reason import typed_reason_of
from lipaudit.graph.arguments import bind
from lipaudit.graph.capture.agreement import disagreement
from lipaudit.graph.capture.first_call import called_once
from lipaudit.graph.capture.isolation import drawing
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.capture.trace import MOST_NUMBERS, ROOT, place, trace
from lipaudit.graph.constant_errors import MOVES
from lipaudit.graph.constants import evaluated, is_constant, parts, strided, without_values
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref, TensorInfo
from lipaudit.option_names import spell


def capture(module: nn.Module, inputs: Mapping[str, torch.Tensor], freeze: int | None = None) -> Graph:
    """The functional ATen graph of ``module`` in eval mode on inputs of the given shapes (batch axis of 1 included).

    The graph is compared with the module on inputs of its own (:mod:`lipaudit.graph.capture.agreement`); a module that is another function
    while it is exported is captured as it is called. It is left as it was found (mode, hooks, gradients, buffers, random
    generators). Random numbers that it draws while it computes its weights are those of the seed ``freeze``. A module on the
    meta device has constants without values, which are meta tensors in the graph, and is not compared.

    Raises:
        CaptureError: if export fails, with the module's own message (an input size that it rejects, data-dependent
            control flow), or if the module computes something else than the graph.
    """
    first_difference = None
    for as_called in (False, True):
        try:
            as_run, graph = _exported(module, inputs, as_called, freeze)
        except CaptureError:
            if first_difference is None:
                raise
            break
        difference = disagreement(module, inputs, as_run, freeze)
        if difference is None:
            return graph
        first_difference = first_difference or difference
    raise CaptureError(first_difference)


def _exported(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], as_called: bool, freeze: int | None
) -> tuple[Graph, Graph]:
    """The graph with the constants that the network computes, and the same with those that its stored numbers define."""
    try:
        return _capture(module, inputs, False, as_called, freeze)
    except CaptureError:
        if not has_values(module):
            raise
        # once more for a network that keeps in its first call what it reads in the next ones, and for one that reads numbers from its
        # weights; the first failure tells more than the others
        with suppress(CaptureError), called_once(module, inputs, freeze) as computed:
            if computed.changed:
                return _capture(module, inputs, True, as_called, freeze, computed)
        with suppress(CaptureError):
            return _capture(module, inputs, True, as_called, freeze)
        raise


def _capture(
    module: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    numbers: bool,
    as_called: bool,
    freeze: int | None,
    computed: Container[str] = (),
) -> tuple[Graph, Graph]:
    """As in :func:`_exported`; ``computed`` are the names of tensors that are no stored numbers of the network."""
    try:
        program, sizes = trace(module, inputs, numbers, as_called, freeze)
    except Exception as error:
        shapes = ", ".join(f"{name}: {tuple(x.shape)}" for name, x in inputs.items())
        raise CaptureError(
            f"the network cannot be captured on inputs {shapes}: {typed_reason_of(error)}; {_advice(error)}"
        ) from error
    with torch.no_grad():
        as_run = _Reader(program, tuple(inputs), numbers, False, freeze is not None, computed)
        with drawing(inputs, freeze):
            graph = as_run.graph(sizes)
        if not as_run.computes:
            return graph, graph
        with drawing(inputs, freeze):  # the same numbers
            precise = _Reader(program, tuple(inputs), numbers, True, freeze is not None, computed)
            return graph, precise.graph(sizes)


def _advice(error: Exception) -> str:
    text = f"{type(error).__name__} {error}"
    if "DataDependent" in text or "data-dependent" in text:
        return (
            "its control flow depends on the input's values, so that it is no single graph: audit the parts around it"
        )
    if "scalar types: Long, Int" in text:
        return (
            "it reads integers (an embedding), which have no Lipschitz constant: hold that input at a value "
            f"({spell('fix', {'NAME': 'VALUE'})}) and name the others with {spell('input_shape')}"
        )
    if "when training" in text:
        return "it normalises with the statistics of a batch, and a bound is about one sample"
    return f"check the input size ({spell('input_shape')}), or report the model"


def _refused(target: torch._ops.OpOverload, error: Exception) -> str:
    """Why an operation cannot run on constants, which export takes for tensors of any value."""
    return (
        f"the network itself fails at {target}, whatever its input: {typed_reason_of(error)}; check the values of inputs that are "
        f"held ({spell('fix')}: token ids within the vocabulary) and the input sizes ({spell('input_shape')}: a sequence no longer than "
        "its positions)"
    )


class _Reader:
    """Walks the exported graph once and separates what depends on the input from what does not."""

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        input_names: tuple[str, ...],
        numbers: bool,
        precise: bool,
        frozen: bool,
        computed: Container[str],
    ) -> None:
        self.program = program
        self.computed = computed  # names of tensors that the network computed in its own precision
        self.frozen = frozen  # whether random numbers are drawn
        self.precise = precise  # whether constants are computed in float64
        self.computes = False  # whether there are any
        self.input_names = input_names
        self.numbers = numbers  # small weights may have been read, which leaves no trace in the program
        # per exported node: Ref, tuple of Refs (several outputs), Constant, tuple of Constants, or a literal
        self.values: dict[torch.fx.Node, Any] = {}
        self.nodes: list[Node] = []

    def graph(self, sizes: Mapping[str, list[tuple[int, ...]]]) -> Graph:
        """The live part of the graph, in topological order."""
        placeholders = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        self._placeholders(placeholders)
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "get_attr":
                raise CaptureError(
                    f"the captured graph calls a subgraph ({node.target}); control flow is not supported"
                )
        outputs, output_names, constant_outputs = self._outputs()
        inputs = tuple(n.name for n in self.nodes if n.op == "input")
        live = _live(self.nodes, {*outputs, *inputs})
        parameters = self.program.state_dict
        trained = {s.target for s in self.program.graph_signature.input_specs if s.kind is InputKind.PARAMETER}
        used = {name for n in live for name in _constant_names(n.arguments.values())}
        # tied weights share their storage: they count once, and a use of one name is a use of all
        storage = {name: _place(p) for name, p in parameters.items() if name in trained}
        unique = {storage[name]: parameters[name].numel() for name in storage}
        maybe = MOST_NUMBERS if self.numbers else -1
        read = {p for name, p in storage.items() if _strip(name) in used or parameters[name].numel() <= maybe}
        return Graph(
            nodes=tuple(live),
            inputs=inputs,
            outputs=tuple(outputs),
            output_names=tuple(output_names),
            constant_outputs=constant_outputs,
            input_sizes={name: tuple(shapes) for name, shapes in sizes.items()},
            num_parameters=sum(unique.values()),
            unused_parameters=tuple(sorted(_strip(name) for name, pointer in storage.items() if pointer not in read)),
        )

    def _placeholders(self, placeholders: list[torch.fx.Node]) -> None:
        program = self.program
        specs = program.graph_signature.input_specs
        names = iter(self.input_names)
        for node, spec in zip(placeholders, specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                if isinstance(spec.arg, ConstantArgument):
                    self.values[node] = spec.arg.value
                    continue
                info = _info(node.meta["val"])
                name = next(names)
                self.nodes.append(Node(name, "input", {}, (info,)))
                self.values[node] = Ref(name, info)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                target = str(spec.target)
                source = program.constants if target in program.constants else program.state_dict
                value = strided(source[target].detach(), target)
                # a tensor that forward makes has no name: it belongs to the architecture, not to the weights
                origin = () if spec.kind is InputKind.CONSTANT_TENSOR else (_strip(target),)
                error = math.inf if _strip(target) in self.computed else 0.0
                self.values[node] = Constant(without_values(value) if _is_fake(value) else value, origin, error=error)
            else:
                raise CaptureError(f"the captured graph has an input of kind {spec.kind.name}, which is not supported")

    def _call(self, node: torch.fx.Node) -> Any:
        args = torch.fx.map_arg(node.args, lambda n: self.values[n])
        kwargs = torch.fx.map_arg(node.kwargs, lambda n: self.values[n])
        target = node.target
        if target is operator.getitem:
            source, index = args
            return self._getitem(node, source, index)
        if not isinstance(target, torch._ops.OpOverload):
            if not list(parts((args, kwargs), Ref)):
                raise CaptureError(f"the captured graph calls {target}, which is not an ATen operation")
            arguments = {str(i): _argument(a) for i, a in enumerate(args)}
            return self._append(node, str(target), arguments)
        bound = bind(target, args, kwargs)
        if is_constant(target, bound):
            self.computes = self.computes or str(target) not in MOVES
            try:
                return evaluated(target, bound, node.meta.get("val"), self.precise, self.frozen)
            except (IndexError, ValueError, RuntimeError) as error:
                if is_out_of_memory(error):
                    raise
                raise CaptureError(_refused(target, error)) from error
        return self._append(node, str(target), {name: _argument(value) for name, value in bound.items()})

    def _append(self, node: torch.fx.Node, op: str, arguments: Mapping[str, Argument]) -> Any:
        value = node.meta.get("val")
        tensors = value if isinstance(value, list | tuple) else (value,)
        outputs = tuple(_info(t) for t in tensors if isinstance(t, torch.Tensor))
        if not outputs:
            if value is not None or _returns(node.target):
                raise CaptureError(
                    f"the network computes a number from its input ({op}, as Tensor.item() does) and goes on with it; "
                    "what depends on that number cannot be followed. Keep it a tensor, or audit the parts around it"
                )
            return None  # assertions and the like
        if len(outputs) == 1 and (empty := _without_entries(outputs[0])) is not None:
            return empty if isinstance(value, torch.Tensor) else (empty,)
        self.nodes.append(Node(node.name, op, arguments, outputs, _module_path(node)))
        if isinstance(value, torch.Tensor):
            return Ref(node.name, outputs[0])
        described = iter(outputs)
        return tuple(Ref(node.name, next(described)) if isinstance(t, torch.Tensor) else None for t in tensors)

    def _getitem(self, node: torch.fx.Node, source: Any, index: Any) -> Any:
        picked = source[index]
        if not isinstance(picked, Ref):
            return picked
        if (empty := _without_entries(picked.info)) is not None:
            return empty
        self.nodes.append(
            Node(node.name, "getitem", {"self": picked, "index": index}, (picked.info,), _module_path(node))
        )
        return Ref(node.name, picked.info)

    def _outputs(self) -> tuple[list[str], list[str], int]:
        output = next(n for n in self.program.graph.nodes if n.op == "output")
        specs = self.program.graph_signature.output_specs
        # buffers that the network updates do not reach its output
        values = [v for v, spec in zip(output.args[0], specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT]
        outputs, names, constants = [], [], 0
        for value, name in zip(values, self._output_names(len(values)), strict=True):
            known = self.values[value] if isinstance(value, torch.fx.Node) else value
            if isinstance(known, Ref):
                outputs.append(known.name)
                names.append(name)
            elif isinstance(known, Constant):
                constants += 1
        if not outputs and not constants:
            raise NoTensorError(
                "forward returns no tensor, so that there is no output to bound: let it return its result"
            )
        return outputs, names, constants

    def _output_names(self, count: int) -> list[str]:
        """Where each output stands in the tuple, list or dict that the network returns."""
        structure = pytree.tree_unflatten(list(range(count)), self.program.call_spec.out_spec)
        return [place(path) for path, _ in pytree.tree_flatten_with_path(structure)[0]]


def _is_fake(value: torch.Tensor) -> bool:
    return isinstance(value, FakeTensor) or value.is_meta


def _place(parameter: torch.Tensor) -> int:
    """The same number for tensors that share their storage."""
    return id(parameter) if _is_fake(parameter) or not parameter.numel() else parameter.data_ptr()


def _returns(target: object) -> bool:
    """Whether an operation returns anything; assumed of what is no ATen operation."""
    return bool(target._schema.returns) if isinstance(target, torch._ops.OpOverload) else True


def _info(value: torch.Tensor) -> TensorInfo:
    if any(not isinstance(n, int) for n in value.shape):
        raise CaptureError(
            f"the network has a tensor of data-dependent shape {tuple(value.shape)}; it cannot be audited"
        )
    return TensorInfo(tuple(value.shape), value.dtype)


def _without_entries(info: TensorInfo) -> Constant | None:
    """A tensor that has no entries does not depend on the input: batch norms return two of them in evaluation mode."""
    return Constant(torch.empty(info.shape, dtype=info.dtype)) if 0 in info.shape else None


def _strip(name: str) -> str:
    return name.removeprefix(f"{ROOT}.")


def _module_path(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    path = str(next(reversed(stack.values()))[0]) if stack else ""
    return "" if path == ROOT else _strip(path)


def _argument(value: Any) -> Argument:
    if isinstance(value, list | tuple):
        return tuple(_argument(v) for v in value)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        raise CaptureError("the network uses a data-dependent number; it cannot be audited")
    return value  # type: ignore[no-any-return]


def _constant_names(arguments: Iterable[Argument]) -> Iterator[str]:
    for constant in parts(list(arguments), Constant):
        yield from constant.names


def _live(nodes: list[Node], wanted: set[str]) -> list[Node]:
    """The nodes that ``wanted`` depends on. The graph is functional, so nothing else can have an effect."""
    needed = set(wanted)
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(ref.name for ref in node.refs)
    if unknown := needed - {n.name for n in nodes}:
        raise GraphError(f"the graph uses {sorted(unknown)}, which it does not compute")
    return [n for n in nodes if n.name in needed]
