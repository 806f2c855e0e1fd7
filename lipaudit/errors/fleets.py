"""What is wrong with the record of a fleet, and where its audits run."""

from __future__ import annotations

from pathlib import Path

from lipaudit.errors import ClusterError, ModelLoadError, OutputError, UsageError, WorkerError

_ANOTHER = "name another file with -o"
_SHARE = "put it in a folder that all machines share"


class NotARecordError(UsageError):
    """A file that is no record of a fleet, in the place of one."""

    def __init__(self, path: Path | None, restart: bool = False) -> None:
        why = ", and --restart replaces nothing else" if restart else ""
        super().__init__(f"{path} exists and is not the record of a fleet{why}: {_ANOTHER}")


class NotARegularFileError(UsageError):
    """A folder, a pipe or a device in the place of a record."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a regular file, which the record of a fleet must be: {_ANOTHER}")


class OtherSettingsError(UsageError):
    """A record of audits with other settings."""

    def __init__(self, path: Path | None, differences: str) -> None:
        super().__init__(
            f"{path} holds audits with other settings ({differences}): {_ANOTHER}, or start over with --restart"
        )


class DamagedRecordError(UsageError):
    """A line of a record that somebody has edited; without the first line the others are worth nothing."""

    def __init__(self, path: Path | None, line: int, problem: str) -> None:
        remedy = "remove the line, " if line > 1 else ""
        super().__init__(f"{path} is damaged: line {line} {problem}; {remedy}{_ANOTHER}, or start over with --restart")


class RecordLineError(UsageError):
    """A line of a record that is read back and holds no outcome."""

    def __init__(self, line: int, error: Exception) -> None:
        super().__init__(f"line {line} of the record is not the outcome of an audit: {error}")


class RecordInUseError(UsageError):
    """A record to which another run writes."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another run writes to {path}: wait until it ends, or {_ANOTHER}")


class RecordOutputError(OutputError):
    """The system refuses to keep a record."""

    def __init__(self, path: Path | None, error: OSError) -> None:
        place = path or "a temporary file"
        super().__init__(
            f"the record of the fleet cannot be kept in {place}: {error.strerror or error}; what was recorded before is kept"
        )


class ReplacedRecordError(OutputError):
    """Another file has taken the place of a record while it was written."""

    def __init__(self, path: Path, kept: Path) -> None:
        super().__init__(
            f"another file has taken the place of {path} while it was written: it is left alone, and what was recorded is in {kept}"
        )


class OtherVersionError(UsageError):
    """A worker with another version of lipaudit."""

    def __init__(self, asks: str, here: str) -> None:
        super().__init__(f"lipaudit {asks} asks and {here} is installed on the worker: install one version everywhere")


class WorkerFolderError(ModelLoadError):
    """The working directory does not exist where a worker runs."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"the worker has no folder {folder}: start the fleet in a folder that all machines share")


class WorkerFileError(ModelLoadError):
    """A file that a worker does not have, or has with another content; hashes are SHA-256."""

    def __init__(self, name: str, expected: str, there: str | None) -> None:
        problem = (
            "does not exist on the worker"
            if there is None
            else f"is another file on the worker than where the fleet was started (SHA-256 {there[:12]}…, not {expected[:12]}…)"
        )
        super().__init__(f"{name} {problem}: {_SHARE}")


class NoProcessError(WorkerError):
    """The system starts no process for an audit."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"no process can be started for an audit ({error.strerror}): free memory or allow more processes, or try fewer --jobs; "
            "what is finished is recorded"
        )


class NoClusterPackageError(ClusterError):
    """The package that talks to a Dask cluster is missing."""

    def __init__(self) -> None:
        super().__init__(
            "--cluster requires the package distributed: pip install 'lipaudit[cluster]'; or audit on this machine with --jobs"
        )


class NoSchedulerError(ClusterError):
    """Nothing answers at the address of a scheduler."""

    def __init__(self, address: str, error: Exception) -> None:
        reason = " ".join(str(error).split())
        super().__init__(
            f"no scheduler of a Dask cluster answers at {address} ({reason}): start one with `dask scheduler` and name the address "
            "that it prints"
        )


class LostSchedulerError(ClusterError):
    """The scheduler went away while a fleet was audited."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the scheduler at {address} went away: what is finished is recorded, and the same command continues when it is back"
        )
