"""The names of torchvision's and timm's models, kept in a file of the user's cache for each pair of versions.

The registries alone know the names, and importing them takes seconds. No list of names is shipped: it would be that of other versions.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lipaudit.errors import OutputError
from lipaudit.files import write_whole
from lipaudit.version import __version__


@dataclass(frozen=True)
class ModelNames:
    """Sorted names: torchvision's models, timm's architectures, and timm's pretrained ``architecture.tag``."""

    torchvision: tuple[str, ...]
    timm: tuple[str, ...]
    timm_tags: tuple[str, ...]

    def matching(self, pattern: str) -> list[str]:
        """Names with their prefix that match a pattern; a text without a wildcard matches anywhere.

        Timm's pretrained tags are listed where the pattern has a dot.

        >>> ModelNames(("resnet18",), ("resnet18", "resnet18d"), ("resnet18.a1_in1k",)).matching("timm:resnet18")
        ['timm:resnet18', 'timm:resnet18d']
        """
        head, colon, tail = pattern.partition(":")
        registry, text = (head, tail) if colon else ("", pattern)
        wildcard = text if any(c in text for c in "*?[") else f"*{text}*"
        pools = {"torchvision": self.torchvision, "timm": self.timm_tags if "." in wildcard else self.timm}
        return [
            f"{prefix}:{name}"
            for prefix, names in pools.items()
            if registry in ("", prefix)
            for name in names
            if fnmatchcase(name, wildcard)
        ]


def kept_names() -> ModelNames | None:
    """The names of the installed versions from the cache; None where they are not kept there."""
    try:
        kept = json.loads(_cache_file().read_text(encoding="utf-8"))
        return ModelNames(**{registry: tuple(names) for registry, names in kept.items()})
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # not kept yet, or by something else


def collect_names() -> ModelNames:
    """The names as the registries have them, which imports torch; they are kept for the next time."""
    from lipaudit.frontends.registry import registry_names

    names = ModelNames(**{registry: tuple(names) for registry, names in registry_names().items()})
    try:
        file = _cache_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(names)))
    except (OSError, OutputError):
        pass  # a cache that cannot be written costs time when the names are asked for again, and nothing else
    return names


def _cache_file() -> Path:
    from importlib import metadata  # which --help need not wait for

    versions = "-".join(f"{name}-{metadata.version(name)}" for name in ("torchvision", "timm"))
    folder = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(folder).expanduser() / "lipaudit" / f"names-{__version__}-{versions}.json"
