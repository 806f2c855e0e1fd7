"""The convolutions of a network as an audit measures them: captured, and batch norms folded into their kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lipaudit.auditing.capture import capture_model
from lipaudit.auditing.load import open_model
from lipaudit.auditing.placement import placed
from lipaudit.auditing.request import AuditRequest
from lipaudit.frontends.spec import Kind, parse_spec
from lipaudit.graph.linear import CONVOLUTION
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.fingerprint import content_key


@dataclass(frozen=True)
class Layer:
    """One convolution, and how often the network applies the same numbers in the same geometry."""

    name: str
    convolution: Convolution
    uses: int = 1

    @property
    def large(self) -> bool:
        """Whether the kernel spans more than one pixel."""
        return max(self.convolution.kernel_size) > 1

    @property
    def depthwise(self) -> bool:
        return self.convolution.groups > 1

    @property
    def shape(self) -> str:
        c_in, c_out = self.convolution.channels
        size = "x".join(map(str, self.convolution.kernel_size))
        groups = f" g{self.convolution.groups}" if self.depthwise else ""
        return f"{c_in}-{c_out} {size} s{max(self.convolution.stride)}{groups}"


def split_name(network: str) -> tuple[str, str | None]:
    """A network and the file of its weights, from ``SPEC`` or ``SPEC=FILE``."""
    spec, equals, file = network.partition("=")
    return spec, file if equals else None


def load_layers(network: str, size: str | None, weights: str | None = "random", arch: str | None = None) -> list[Layer]:
    """The convolutions of ``SPEC`` or ``SPEC=FILE``, each kernel and geometry once, on the CPU.

    ``size``, ``weights`` and ``arch`` are what ``lipaudit --input``, ``--weights`` and ``--arch`` take; a file behind the equals
    sign takes the place of ``weights``; a model file and a factory have weights of their own.
    """
    spec, file = split_name(network)
    own = arch is not None or parse_spec(spec).kind in (Kind.FACTORY, Kind.FILE)
    request = AuditRequest(model=spec, input_shape=size, weights=file or (None if own else weights), arch=arch)
    loaded = open_model(request)
    with placed(loaded, "cpu") as place:
        graph = capture_model(loaded, place).simple
    found: dict[bytes, Layer] = {}
    for node in graph:
        if node.op != CONVOLUTION:
            continue
        convolution = node.payload
        key = content_key(convolution)
        known = found.get(key)
        found[key] = replace(known, uses=known.uses + 1) if known else Layer(node.module, convolution)
    return list(found.values())
