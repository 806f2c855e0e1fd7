"""One audit of a fleet, wherever it runs: a task that can be sent to another process, and what that process does with it."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from lipaudit.auditing.request import AuditRequest
from lipaudit.errors import LipauditError, OutOfMemoryError, UsageError, is_out_of_memory
from lipaudit.errors.fleets import OtherVersionError, WorkerFileError, WorkerFolderError
from lipaudit.fleet.entry import DONE, Entry
from lipaudit.frontends.input_files import external_files, file_hashes
from lipaudit.frontends.spec import Kind, parse_spec
from lipaudit.option_names import command_line
from lipaudit.version import __version__

_DEFECT = 70
# torch exports one network at a time; a worker of a cluster may have several threads
ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Task:
    """The request of one model, and what of it is the model's ``own``, by the names of options and as JSON has them.

    ``folder`` is the directory to which relative paths belong, None for the process's own. ``expected`` maps files to the
    SHA-256 that they must have, ``version`` is that of the lipaudit that asks. ``debug`` changes no figure.
    """

    request: AuditRequest
    own: dict[str, Any] = field(default_factory=dict)
    debug: bool = False
    folder: str | None = None
    expected: dict[str, str] = field(default_factory=dict)
    version: str = __version__

    @property
    def spec(self) -> str:
        """The model, as it was typed."""
        return str(self.request.model)

    @property
    def runs_code(self) -> bool:
        """Whether the audit runs code of the user: a factory, as the model or as the architecture of a checkpoint."""
        return any(map(_is_factory, (self.spec, self.request.arch or "")))


def perform(task: Task) -> Entry:
    """Audit the model; whatever goes wrong becomes the entry's error."""
    try:
        with command_line(), ONE_AT_A_TIME, _in_folder(task.folder), _quiet(task.debug):
            return _audited(task)
    except LipauditError as error:
        return _failed(task, str(error), error.exit_code)
    except Exception as error:
        if is_out_of_memory(error):
            return _failed(task, str(OutOfMemoryError()), OutOfMemoryError.exit_code)
        hint = "a defect of lipaudit; audit it alone with --debug for the traceback and report it"
        return _failed(task, f"{type(error).__name__}: {error} ({hint})", _DEFECT)


def _audited(task: Task) -> Entry:
    from lipaudit.auditing.run import run_audit

    if task.version != __version__:
        raise OtherVersionError(task.version, __version__)
    # taken before the audit: content that changes meanwhile differs from the record and is audited again
    files = file_hashes(task.request.files())
    _check_content(task.expected, files)
    files |= file_hashes(external_files(task.spec))
    report = run_audit(task.request)
    return Entry(task.spec, task.own, DONE, files=files, report=report.to_dict())


def _is_factory(spec: str) -> bool:
    try:
        return parse_spec(spec).kind is Kind.FACTORY
    except UsageError:
        return False


def _check_content(expected: dict[str, str], there: dict[str, str]) -> None:
    for name, digest in expected.items():
        if there.get(name) != digest:
            raise WorkerFileError(name, digest, there.get(name))


def _failed(task: Task, message: str, exit_code: int) -> Entry:
    trace = traceback.format_exc() if task.debug else ""
    return Entry.failed(task.spec, task.own, " ".join(message.split()), exit_code, trace)


@contextmanager
def _in_folder(folder: str | None) -> Iterator[None]:
    """The working directory of whoever asks, so that relative paths and reports read the same everywhere."""
    if folder is None or folder == os.getcwd():
        yield
        return
    if not os.path.isdir(folder):
        raise WorkerFolderError(folder)
    with chdir(folder):
        yield


@contextmanager
def _quiet(debug: bool) -> Iterator[None]:
    """Nothing that other packages print or warn of, unless it is asked for."""
    if debug:
        yield
        return
    with ExitStack() as stack:
        nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield
