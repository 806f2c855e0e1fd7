"""State dicts: reading one without executing anything, and putting it into a module.

A checkpoint is read with ``torch.load(weights_only=True)`` or by safetensors, never otherwise: what needs code to load is
refused. Around the tensors the first of the containers of :data:`CONTAINERS` is opened that is there, in this order. The prefixes
``module.`` (data parallel) and ``_orig_mod.`` (compiled) are taken off where every name has them. Where a trainer keeps its network in an
attribute (``model.``, ``net.``), what lies under the one prefix that fits the architecture is taken.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from lipaudit.errors import ModelLoadError
from lipaudit.errors.reason import reason_of
from lipaudit.frontends.files import existing_file
from lipaudit.option_names import spell

# averaged weights come last: a file that has both is audited by the plain ones
CONTAINERS = (
    *("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights", "params"),
    *("state_dict_ema", "model_ema", "params_ema", "ema_state_dict", "ema"),
)
PREFIXES = ("module.", "_orig_mod.")
# where a network that is there several times (averaged weights, a teacher) is taken from
_ATTRIBUTES = ("model.", "net.", "network.")
StateDict = dict[str, torch.Tensor]


def read_state_dict(text: str) -> StateDict:
    """The named tensors in a checkpoint file (.pt, .pth, .th, .safetensors), on the CPU.

    Raises :class:`ModelLoadError` for a truncated file, a TorchScript archive, a pickle that needs code (it is not
    executed), and for a file that holds no named tensors.
    """
    path = existing_file(text)
    content = _read_safetensors(path) if path.suffix.lower() == ".safetensors" else _read_pickle(path)
    return strip_prefixes(_unwrap(content, path))


def _read_safetensors(path: Path) -> object:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ModelLoadError(
            f"{path} is not a readable safetensors file ({error}): it may be truncated, fetch it again"
        ) from error


def _read_pickle(path: Path) -> object:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any("/code/" in name or name.endswith("/constants.pkl") for name in names):
            raise ModelLoadError(
                f"{path} is a TorchScript archive, which is a program: export the model with torch.onnx.export or "
                f"torch.export.save, audit it as it is (without {spell('arch')}), or save its state_dict()"
            )
        if any(name.endswith(("/archive_format", "serialized_exported_program.json")) for name in names):
            raise ModelLoadError(f"{path} is an exported program, not a state dict: give the file the suffix .pt2")
    try:
        with warnings.catch_warnings():
            # another pickle protocol either loads or raises below; torch's warning adds nothing
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            # a sparse tensor is refused below
            warnings.filterwarnings("ignore", message="Validating sparse tensor invariants")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "Unsupported" in str(error) or "GLOBAL" in str(error):
            raise ModelLoadError(
                f"{path} needs Python code to load, which lipaudit never runs: refused, nothing in it was executed; save the "
                "weights alone with torch.save(model.state_dict(), PATH) or as safetensors"
            ) from error
        raise ModelLoadError(f"{path} is not a state dict written by torch.save ({reason_of(error)})") from error
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(
            f"{path} cannot be read as a state dict ({reason_of(error)}): it may be truncated, fetch it again"
        ) from error


def _unwrap(content: object, path: Path) -> StateDict:
    opened: set[int] = set()
    while isinstance(content, Mapping) and not _is_state_dict(content):
        if id(content) in opened:
            raise ModelLoadError(f"{path} holds a container that holds itself: save model.state_dict() with torch.save")
        opened.add(id(content))
        inner = next(
            (content[key] for key in CONTAINERS if isinstance(content.get(key), Mapping) and content[key]), None
        )
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not _is_state_dict(content):
        kind = type(content).__name__
        keys = f" with the keys {', '.join(map(str, list(content)[:5]))}" if isinstance(content, Mapping) else ""
        raise ModelLoadError(f"{path} holds no state dict but a {kind}{keys}: save model.state_dict() with torch.save")
    return {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}


def _is_state_dict(content: Mapping[object, object]) -> bool:
    tensors = sum(isinstance(value, torch.Tensor) for value in content.values())
    others = sum(isinstance(value, Mapping) for value in content.values())
    return tensors > 0 and others == 0


def strip_prefixes(state: StateDict) -> StateDict:
    """Take the prefixes ``module.`` and ``_orig_mod.`` off, in any order, where every name has them.

    >>> import torch
    >>> list(strip_prefixes({"module._orig_mod.fc.bias": torch.zeros(1)}))
    ['fc.bias']
    """
    for _ in range(8):
        prefix = next((p for p in PREFIXES if state and all(name.startswith(p) for name in state)), None)
        if prefix is None:
            break
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def apply_state_dict(module: nn.Module, state: StateDict, path: str, arch: str) -> torch.dtype:
    """Put a state dict into a module, strictly, and return the dtype that the weights now have.

    The module takes the widest floating dtype among its own and the checkpoint's tensors (rounding a float64 checkpoint
    would audit another network); narrower tensors are widened exactly. Only ``num_batches_tracked`` may be missing:
    evaluation does not read it. Raises :class:`ModelLoadError` where names or shapes differ, for tensors that are not dense,
    and for values that the module's own type cannot hold exactly (imaginary parts, large integers).
    """
    expected = module.state_dict()
    state = _match_prefix(state, expected, path)
    for name, value in state.items():
        if value.is_quantized or value.is_nested or value.layout != torch.strided or value.device.type == "meta":
            raise ModelLoadError(
                f"{path} holds {name} as no dense tensor with values: save it dense, after dequantize()"
            )
    missing = [n for n in expected if n not in state and not n.endswith("num_batches_tracked")]
    unexpected = [n for n in state if n not in expected]
    misshaped = [
        f"{n} {tuple(v.shape)} instead of {tuple(expected[n].shape)}"
        for n, v in state.items()
        if n in expected and v.shape != expected[n].shape
    ]
    if missing or unexpected or misshaped:
        differences = [
            _listing(missing, "missing"),
            _listing(unexpected, "unexpected"),
            _listing(misshaped, "of another shape"),
        ]
        raise ModelLoadError(
            f"{path} does not fit {arch}, it looks like another architecture: {'; '.join(f for f in differences if f)}; "
            f"name the right one with {spell('arch')}"
        )
    dtype = torch.float32
    for value in (*state.values(), *expected.values()):
        if value.is_floating_point():
            dtype = torch.promote_types(dtype, value.dtype)
    for name, value in state.items():
        kind = dtype if expected[name].is_floating_point() else expected[name].dtype
        if not _holds_exactly(value, kind):
            raise ModelLoadError(
                f"{path} holds {name} as {value.dtype}, and {arch} as {kind}, which cannot hold its values exactly: save the "
                "checkpoint in the model's own types"
            )
    module.to(dtype)
    versioned: OrderedDict[str, torch.Tensor] = OrderedDict(state)
    # some modules (MNASNet) ask which version of themselves wrote the tensors: names and shapes are this one's
    versioned._metadata = getattr(expected, "_metadata", {})  # type: ignore[attr-defined]
    module.load_state_dict(versioned, strict=False)
    return dtype


def _holds_exactly(value: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether conversion to ``dtype`` changes no value (a floating ``dtype`` is at least as wide as the value's)."""
    if value.dtype == dtype or dtype.is_complex or (value.is_floating_point() and dtype.is_floating_point):
        return True
    if value.is_complex():
        return False
    if dtype.is_floating_point:
        if value.dtype in (torch.bool, torch.uint8, torch.int8, torch.int16):
            return True
        exact = round(2 / torch.finfo(dtype).eps)  # every integer up to here is a value of the type
        value = value[(value > exact) | (value < -exact)]
    # Python compares integers and floats without rounding
    return bool(value.to(dtype).tolist() == value.tolist())


def _match_prefix(state: StateDict, expected: Mapping[str, object], path: str) -> StateDict:
    """The tensors under the prefix that the architecture's names have in the file.

    Where the module itself has a child named like a stripped prefix, the prefix is put back. Raises :class:`ModelLoadError` where
    several networks of this architecture are in the file and none of them has a usual name.
    """
    names = [name for name in expected if not name.endswith("num_batches_tracked")]
    if not names or any(name in state for name in names):
        return state
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in expected):
            return {prefix + name: value for name, value in state.items()}
    ends = sorted({name.removesuffix(names[0]) for name in state if name.endswith(f".{names[0]}")})
    fitting = [prefix for prefix in ends if all(prefix + name in state for name in names)]
    usual = [prefix for prefix in _ATTRIBUTES if prefix in fitting] or fitting
    if len(fitting) > 1 and usual is fitting:
        raise ModelLoadError(
            f"{path} holds {len(fitting)} networks of this architecture, under {' and '.join(fitting[:3])}: save the one to audit alone"
        )
    return {n.removeprefix(p): value for p in usual[:1] for n, value in state.items() if n.startswith(p)} or state


def _listing(names: list[str], what: str) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{len(names)} {what} ({shown})"
