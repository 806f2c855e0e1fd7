"""Which module of torch an ONNX node came from, as far as the exporter wrote it down.

Both exporters of torch keep the names of parameters for initialisers that they do not compute; the newer one (``dynamo=True``) also
writes the modules around each node into its metadata.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import onnx

_SCOPES = "pkg.torch.onnx.name_scopes"
# the last part of a parameter's or buffer's name in torch; other initialisers have made-up names
_ATTRIBUTES = ("weight", "bias", "running_mean", "running_var", "in_proj_weight", "in_proj_bias")


def module_path(node: onnx.NodeProto, weights: Sequence[str]) -> str | None:
    """The state-dict prefix of the node's ``weights`` (names of initialisers), or the module in which it ran; None where neither is known.

    >>> node = onnx.helper.make_node("Conv", ["x", "layer1.0.conv1.weight"], ["y"])
    >>> module_path(node, ["layer1.0.conv1.weight"])
    'layer1.0.conv1'
    """
    for name in weights:
        path, dot, attribute = name.rpartition(".")
        if dot and attribute in _ATTRIBUTES:
            return path
    return _scope(node)


def _scope(node: onnx.NodeProto) -> str | None:
    """The innermost module in the metadata, whose last entry is the operation itself."""
    text = next((entry.value for entry in node.metadata_props if entry.key == _SCOPES), "")
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(scopes, list) or len(scopes) < 2 or not all(isinstance(scope, str) for scope in scopes):
        return None
    return str(scopes[-2])
