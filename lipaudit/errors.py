"""Typed errors. Each message says what is wrong, where, and what to do next; each knows its exit code."""

from __future__ import annotations

from lipaudit.escaping import printable_lines


class LipauditError(Exception):
    """Base of every error that lipaudit raises on purpose.

    ``exit_code`` is the status with which the command line ends: 2 usage, 3 the model cannot be loaded or captured,
    1 a gate is exceeded, 4 ``--strict`` and something is unsupported, unbounded or an estimate.
    """

    exit_code = 3

    def __str__(self) -> str:
        """The message, which a traceback prints as well, with what could drive a terminal escaped."""
        return printable_lines(super().__str__())


class UsageError(LipauditError):
    """The request itself is wrong: an unknown option value, an impossible combination, a malformed shape."""

    exit_code = 2


class OutputError(LipauditError):
    """A report cannot be written where the user asked for it."""

    exit_code = 2


class ModelNotFoundError(LipauditError):
    """No file, registry name or factory answers to the given model specification."""


class ModelLoadError(LipauditError):
    """A model was found but cannot be loaded: truncated, of another architecture, refused for safety."""


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


class MethodError(LipauditError):
    """A published method is not defined for the operator at hand."""


class GraphError(LipauditError):
    """A captured graph contradicts itself; this is a defect of lipaudit or of the exporter, never of the user."""


class RegistryError(LipauditError):
    """A rule, method or frontend was registered twice or incompletely."""
