"""Names of both registries: look-up, suggestions, wildcards."""

from __future__ import annotations

import difflib
import glob
import os
from fnmatch import fnmatchcase

from lipaudit.errors import ModelLoadError, ModelNotFoundError
from lipaudit.frontends import timm, torchvision
from lipaudit.frontends.spec import FILE_SUFFIXES, HUB, Kind, ModelSpec, parse_spec


def find(spec: ModelSpec) -> Kind:
    """The registry that has the name: torchvision's first for a bare name.

    Raises :class:`ModelNotFoundError` with the nearest names where none has it.
    """
    model_name = spec.name.partition("@")[0]
    architecture = spec.name.partition(".")[0]
    if spec.kind in (Kind.NAME, Kind.TORCHVISION) and model_name in torchvision.names():
        return Kind.TORCHVISION
    if spec.kind is Kind.TIMM and spec.name.startswith(HUB):
        return Kind.TIMM
    if spec.kind in (Kind.NAME, Kind.TIMM) and timm.has(architecture):
        return Kind.TIMM
    if spec.kind is Kind.NAME and os.path.exists(spec.name):
        what = "a directory" if os.path.isdir(spec.name) else "a file without a known suffix"
        raise ModelLoadError(f"{spec.text} is {what}: name a model file ({', '.join(FILE_SUFFIXES)})")
    raise ModelNotFoundError(_not_found(spec, model_name))


def _not_found(spec: ModelSpec, name: str) -> str:
    pools = {
        Kind.TORCHVISION: lambda: torchvision.names(),
        Kind.TIMM: lambda: timm.names(),
        Kind.NAME: lambda: list(dict.fromkeys([*torchvision.names(), *timm.names()])),
    }
    near = _near(name.lower(), pools[spec.kind]())
    place = "torchvision or timm" if spec.kind is Kind.NAME else spec.kind.value
    hint = f"; did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}?" if near else "."
    return f"no model named {name!r} in {place}{hint} See `lipaudit list PATTERN` for the names, or give a model file."


def _near(name: str, pool: list[str]) -> list[str]:
    """At most three names: those that go on where ``name`` ends, the shortest first, then those of close spelling.

    >>> _near("vit_tiny", ["vit_tiny_patch16_384", "vit_tiny_patch16_224", "vit_base", "vit_tidy"])
    ['vit_tiny_patch16_224', 'vit_tiny_patch16_384', 'vit_tidy']
    """
    longer = sorted((known for known in pool if known.startswith(name)), key=lambda known: (len(known), known))
    close = difflib.get_close_matches(name, pool, n=3, cutoff=0.6)
    return list(dict.fromkeys([*(longer if len(name) > 1 else []), *close]))[:3]


def expand(spec: str) -> list[str]:
    """The sorted specifications that a wildcard stands for; a specification without one stands for itself.

    ``timm:resnet18.*`` lists pretrained tags, ``timm:resnet*`` architectures, ``models/*.onnx`` files. A bare pattern asks
    torchvision first. Raises :class:`ModelNotFoundError` where nothing matches.
    """
    parsed = parse_spec(spec)
    if not parsed.is_pattern:
        return [spec]
    if parsed.kind is Kind.FILE:
        names = sorted(glob.glob(parsed.name, recursive=True))
    else:
        names = []
        if parsed.kind in (Kind.NAME, Kind.TORCHVISION):
            names = _matching("torchvision", parsed.name, torchvision.names())
        if not names and parsed.kind in (Kind.NAME, Kind.TIMM):
            names = _matching("timm", parsed.name, timm.names(tags="." in parsed.name))
    if not names:
        raise ModelNotFoundError(f"nothing matches {spec!r}: see `lipaudit list PATTERN` for the names")
    return names


def registry_names() -> dict[str, list[str]]:
    """Every name by registry, sorted; ``timm_tags`` are timm's pretrained names ``architecture.tag``."""
    return {"torchvision": torchvision.names(), "timm": timm.names(), "timm_tags": timm.names(tags=True)}


def _matching(prefix: str, pattern: str, pool: list[str]) -> list[str]:
    return [f"{prefix}:{name}" for name in pool if fnmatchcase(name, pattern)]
