"""A model of a fleet as one would type it: the specification and the options of its own."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


def command_text(spec: str, options: dict[str, Any]) -> str:
    """The model with its own options; in brackets those of the command line that do not hold for it.

    >>> command_text("a.onnx", {"domain": "pixels", "mean": [0.5], "input_shape": [3, 32, 32], "weights": None})
    'a.onnx --domain pixels --mean 0.5 --input 3x32x32 (no --weights)'
    """
    words, without = [spec], []
    for name, value in options.items():
        option = "--input" if name == "input_shape" else f"--{name.replace('_', '-')}"
        if value is None or value is False:
            without.append(option)
        elif value is True:
            words.append(option)
        elif isinstance(value, dict):  # the shapes of several inputs
            words += [word for key, shape in value.items() for word in (option, f"{key}:{_listed(shape, ',')}")]
        elif isinstance(value, list):
            words += [option, _listed(value, "x" if name == "input_shape" else ",")]
        else:
            words += [option, str(value)]
    return shlex.join(words) + (f" (no {', '.join(without)})" if without else "")


def names(models: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    """What to call the models: by their specifications, with their own options where one is there several times.

    >>> names([("a", {}), ("b", {}), ("b", {"structure": True})])
    ['a', 'b', 'b --structure']
    """
    often = Counter(spec for spec, _ in models)
    return [command_text(spec, options) if often[spec] > 1 and options else spec for spec, options in models]


def _listed(numbers: Iterable[Any], separator: str) -> str:
    return separator.join(map(str, numbers))
