"""Typed errors. Each message says what is wrong, where, and what to do next; each knows its exit code."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

from lipaudit.escaping import printable_lines

# as torch, the C++ library, the dynamic loader and Python's threads say it
_NO_MEMORY = (
    "can't allocate memory",
    "annot allocate memory",
    "std::bad_alloc",
    "failed to map segment",
    "can't start new thread",
)


def shown(value: object) -> str:
    """A value in a message: numbers, texts and sequences as Python writes them, anything else by its type.

    >>> shown(0.5), shown("x" * 100)[-5:], shown({}), shown(dict)
    ('0.5', 'xx...', 'a dict', 'the class dict')
    """
    if value is None or isinstance(value, bool | int | float | str | tuple | list):
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:77]}..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


class LipauditError(Exception):
    """Base of every error that lipaudit raises on purpose.

    ``exit_code`` is the status with which the command line ends: 2 usage, 3 the model cannot be loaded or captured,
    1 a gate is exceeded, 4 ``--strict`` and something is unsupported, unbounded or an estimate.
    """

    exit_code = 3

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors reach other processes by their text, whatever built it."""
        return _rebuilt, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        """The message, which a traceback prints as well, with what could drive a terminal escaped."""
        return printable_lines(super().__str__())


def _rebuilt(kind: type[LipauditError], args: tuple[Any, ...], fields: dict[str, Any]) -> LipauditError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class UsageError(LipauditError):
    """The request itself is wrong: an unknown option value, an impossible combination, a malformed shape."""

    exit_code = 2


class InvalidValueError(UsageError):
    """A value that is not what an option, an argument or a field takes.

    >>> print(InvalidValueError("seed", "an integer from 0 to 9", "x"))
    seed must be an integer from 0 to 9, got 'x'
    >>> print(InvalidValueError("model", "a network", {}, "name a file"))
    model must be a network, got a dict: name a file
    """

    def __init__(self, what: str, expected: str, value: object, advice: str = "") -> None:
        super().__init__(f"{what} must be {expected}, got {shown(value)}{advice and f': {advice}'}")


class UnknownChoiceError(UsageError):
    """A name that is none of those there are.

    >>> print(UnknownChoiceError("device", "tpu", ["cpu", "cuda"]))
    there is no device 'tpu': choose one of cpu, cuda
    """

    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        super().__init__(f"there is no {kind} {shown(name)}: choose one of {', '.join(choices)}")


class RepeatedNameError(UsageError):
    """A name that a list, or several options, may have once.

    >>> print(RepeatedNameError("--methods", "ryu2019"))
    --methods names 'ryu2019' twice: name it once
    """

    def __init__(self, option: str, name: str) -> None:
        super().__init__(f"{option} names {name!r} twice: name it once")


class EmptyListError(UsageError):
    """A list without entries, where no list stands for a default."""

    def __init__(self, option: str) -> None:
        super().__init__(f"{option} is empty: leave it out for the default, or name some")


class ConflictError(UsageError):
    """Two options of which the first has no meaning beside the second.

    >>> print(ConflictError("--plot", "--structure", "an audit of the structure computes no figures"))
    --plot cannot be combined with --structure (an audit of the structure computes no figures): leave out one of them
    """

    def __init__(self, option: str, other: str, reason: str) -> None:
        super().__init__(f"{option} cannot be combined with {other} ({reason}): leave out one of them")


class RequirementError(UsageError):
    """An option that means something only beside another one, which is missing.

    >>> print(RequirementError("--save-pair", "--lower-bound", "it writes the inputs which that search finds"))
    --save-pair requires --lower-bound (it writes the inputs which that search finds): add it, or leave out --save-pair
    """

    def __init__(self, option: str, required: str, reason: str) -> None:
        super().__init__(
            f"{option} requires {required} ({reason}): add it, or leave out {option.split()[0].split('=')[0]}"
        )


class OutputError(LipauditError):
    """A report cannot be written where the user asked for it."""

    exit_code = 2


class CannotWriteError(OutputError):
    """A file that cannot be written."""

    def __init__(
        self, path: object, reason: str | None, advice: str = "choose another file", what: str = "the report"
    ) -> None:
        super().__init__(f"cannot write {what} to {path}: {reason}; {advice}")


class ModelNotFoundError(LipauditError):
    """No file, registry name or factory answers to the given model specification."""


class ModelLoadError(LipauditError):
    """A model was found but cannot be loaded: truncated, of another architecture, refused for safety."""


class OutOfMemoryError(LipauditError):
    """The system gives no more memory; nothing is wrong with the model or with lipaudit."""

    def __init__(self) -> None:
        super().__init__(
            "the system gives no more memory: free some, allow the process more (ulimit -v, the limits of a container), or audit "
            "at a smaller input size"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what caused it, says that the system gave no more memory, as Python, numpy, torch or the loader say it.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("std::bad_alloc")), is_out_of_memory(KeyError("x"))
    (True, True, False)
    """
    seen: BaseException | None = error
    while seen is not None:
        named = type(seen).__name__ in ("MemoryError", "_ArrayMemoryError", "OutOfMemoryError")
        if named or (isinstance(seen, OSError) and seen.errno == errno.ENOMEM):
            return True
        if isinstance(seen, RuntimeError | ImportError) and any(text in str(seen) for text in _NO_MEMORY):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


class WeightsUnavailableError(ModelLoadError):
    """Pretrained weights exist but cannot be fetched from here."""


class DeviceUnavailableError(UsageError):
    """The device that was asked for does not exist on this machine."""


class ClusterError(LipauditError):
    """A Dask cluster cannot be used: its package is missing, no scheduler answers, or the scheduler went away."""

    exit_code = 2


class WorkerError(LipauditError):
    """The system starts no process for an audit."""

    exit_code = 2


class NonFiniteWeightsError(ModelLoadError):
    """A parameter or buffer holds NaN or infinity, so that no bound exists."""

    def __init__(self, names: list[str]) -> None:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        super().__init__(
            f"the model holds NaN or infinite weights in {shown}: no bound exists for it; repair the checkpoint and retry"
        )
        self.names = names


class CaptureError(LipauditError):
    """The model was loaded but its computation graph cannot be captured, or its input size is rejected."""


class NoTensorError(CaptureError):
    """A network runs and returns no tensor: it has no output to bound."""


class MethodError(LipauditError):
    """A published method is not defined for the operator at hand."""


class GraphError(LipauditError):
    """A captured graph contradicts itself; this is a defect of lipaudit or of the exporter, never of the user."""


class RegistryError(LipauditError):
    """A rule, method or frontend was registered twice or incompletely."""
