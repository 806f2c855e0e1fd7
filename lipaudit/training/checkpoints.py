"""An audit of each checkpoint of a training run: called in a plain loop, or as a callback of Lightning or of the Hugging Face Trainer.

Neither framework is imported. Both find what they call by ``getattr`` on the callback: ``lightning.pytorch`` (2.x) every hook of its
``Callback``, its ``state_key`` and its ``state_dict``; ``transformers.Trainer`` (5.x) every event of its ``TrainerCallback``. What an
audit does not need is answered by a function that does nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from lipaudit.auditing.provenance import state_dict_sha256
from lipaudit.auditing.request import AuditOptions, InputShape
from lipaudit.auditing.run import run_audit
from lipaudit.errors import InvalidValueError, LipauditError, OutputError, UnknownChoiceError, UsageError
from lipaudit.files import check_writable, write_whole
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.records.report import AuditReport
from lipaudit.spectral.precompute import Progress
from lipaudit.training.errors import ChangedWeightsError, NoCheckpointsError
from lipaudit.training.history import add_line, failure_line, read_lines, report_line
from lipaudit.training.wrappers import undisturbed, unwrapped

HISTORY = "history.tsv"
# of options of an audit those that fit a network in training
_OPTIONS = {field.name for field in fields(AuditOptions)} - {"input_shape", "weights", "arch", "structure"}


class AuditCheckpoints:
    """Audits checkpoints of a training run and keeps the reports in a folder.

    Each report is ``folder/step-000001000.json``, for ``lipaudit diff`` and ``AuditReport.from_json``; ``folder/history.tsv`` has one line
    per checkpoint. The network is audited as it is at that moment, in evaluation mode; its mode, gradients and device, and the random
    numbers of the training, are afterwards what they were. Hooks of its modules are part of its function and run in an audit, too; one that
    changes weights is an error.

    - In a plain loop: ``audits(model, step)`` returns the report.
    - Lightning: ``Trainer(callbacks=[audits])``. The step is ``trainer.global_step``, the network ``LightningModule.forward``.
    - Hugging Face: ``Trainer(..., callbacks=[audits])``. The step is ``state.global_step``.

    In both frameworks only the process of rank zero audits, while the others wait.

    Args:
        folder: where the reports go; made if it does not exist. One folder per run.
        input_shape: as for :func:`lipaudit.audit`, for the first inputs that ``forward`` requires.
        at: "save" (whenever the framework saves a checkpoint) or "epoch" (at the end of each training epoch).
        every: in a framework, its first checkpoint is audited, and then each that comes ``every`` ones later; a call in a loop of your own
            always audits.
        network: gives the network to audit from the model of the training, where that is not the model itself: a part of it, or a
            module around it that takes tensors and returns tensors.
        overwrite: replace reports of other weights or settings that are there for the same steps, which is an error otherwise.
        keep_going: in a framework, an audit that fails after another has succeeded is a warning and a line of the history, and the
            training goes on. The first audit always raises its own error.
        progress: as for :func:`lipaudit.audit`.
        options: further options of :func:`lipaudit.audit`, as ``tol``, ``fix``, ``domain`` or ``cache``; they are checked at once.

    Raises:
        UsageError: for options that an audit does not have, and for values that they do not take.

    >>> import tempfile
    >>> audits = AuditCheckpoints(tempfile.mkdtemp(), input_shape=(1, 2))
    >>> report = audits(nn.Linear(2, 2), step=1000)
    >>> report.network.status, sorted(os.listdir(audits.folder))
    ('finite', ['history.tsv', 'step-000001000.json'])
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        input_shape: InputShape | None = None,
        *,
        at: str = "save",
        every: int = 1,
        network: Callable[[nn.Module], nn.Module] | None = None,
        overwrite: bool = False,
        keep_going: bool = True,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        if at not in ("save", "epoch"):
            raise InvalidValueError("at", "'save' or 'epoch'", at)
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise InvalidValueError("every", "an integer above 0", every)
        if unknown := sorted(set(options) - _OPTIONS):
            raise UnknownChoiceError("option of an audit of checkpoints", unknown[0], sorted(_OPTIONS))
        self.folder = Path(folder).expanduser()
        self.at = at
        self.every = every
        self.network = network
        self.overwrite = overwrite
        self.keep_going = keep_going
        self.options = AuditOptions(**{"input_shape": input_shape, **options})
        self.progress = progress
        self._last: tuple[int, AuditReport] | None = None
        self._seen: int | None = None
        self._count = 0

    def path(self, step: int) -> Path:
        """The file of a step's report; names sort as steps do."""
        return self.folder / f"step-{step:09d}.json"

    def __call__(self, model: nn.Module, step: int) -> AuditReport:
        """Audit the model now, write its report as that of ``step``, and return it.

        A step that has a report of the same weights and settings keeps it.

        Raises:
            LipauditError: what the audit raises; a UsageError where the step has a report of other weights or settings.
        """
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 10**9:
            raise InvalidValueError("the step", "an integer from 0 to 999,999,999", step)
        model = unwrapped(model)
        with undisturbed(model):
            network = unwrapped(self.network(model)) if self.network is not None else model
            with undisturbed(network):
                return self._report(network, step)

    def _report(self, network: nn.Module, step: int) -> AuditReport:
        weights = _weights(network)
        if self._last is not None and self._last[0] == step and _is_of(self._last[1], weights):
            return self._last[1]
        path = self.path(step)
        known = self._prepare(path, weights)
        report = run_audit(self.options.request(network), self.progress)
        if not _is_of(report, weights):  # the audit hashes them when it has ended
            raise ChangedWeightsError
        if known is None:
            write_whole(path, report.to_json() + "\n")
        elif (known.model, known.settings) == (report.model, report.settings):
            report = known  # a resumed run comes to its last checkpoint again
        else:
            raise _occupied(path, "another audit of these weights")
        add_line(self.folder / HISTORY, step, report_line(step, path.name, report))
        self._last = (step, report)
        return report

    def _prepare(self, path: Path, weights: str | None) -> AuditReport | None:
        """Find out before an audit whether its report may be written; a report of the same weights that is there already."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make the folder {self.folder} for reports: {error.strerror}") from None
        check_writable(path)
        read_lines(self.folder / HISTORY)
        if self.overwrite or not path.exists():
            return None
        try:
            known = AuditReport.from_json(path.read_bytes())
        except UsageError:
            raise _occupied(path, "no report of an audit") from None
        if not _is_of(known, weights):
            raise _occupied(path, "the report of other weights")
        return known

    def _checkpoint(self, model: nn.Module, step: int) -> None:
        """A framework's checkpoint; several at the same step are one."""
        if step != self._seen:
            self._seen = step
            self._count += 1
        if (self._count - 1) % self.every:
            return
        try:
            self(model, step)
        except Exception as error:
            if not self.keep_going or self._last is None:
                raise
            self._failed(step, error)

    def _failed(self, step: int, error: Exception) -> None:
        kept = f"it is in {self.folder / HISTORY}"
        try:
            add_line(self.folder / HISTORY, step, failure_line(step, error), replace=False)
        except (LipauditError, OSError) as problem:
            kept = f"and the history cannot be written ({problem})"
        warnings.warn(
            f"the checkpoint of step {step} was not audited ({type(error).__name__}: {error}); {kept}", stacklevel=4
        )

    # what lightning.pytorch calls

    @property
    def state_key(self) -> str:
        """What tells this callback apart from others in a checkpoint of Lightning."""
        return f"{type(self).__name__}({self.folder})"

    @property
    def _legacy_state_key(self) -> str:
        return self.state_key

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the reports are in the folder."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing."""

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Nothing."""

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Nothing."""

    def on_fit_start(self, trainer: Any, _pl_module: Any) -> None:
        """Refuse a training of which no checkpoint would reach the audit."""
        if self.at != "save" or trainer.fast_dev_run:
            return
        savers = list(trainer.checkpoint_callbacks)
        if not savers:
            raise NoCheckpointsError("this Trainer saves no checkpoints")
        if any(getattr(saver, "save_weights_only", False) for saver in savers):
            reason = "Lightning tells no callback of checkpoints with weights alone (save_weights_only=True)"
            raise NoCheckpointsError(reason, "save_weights_only=False")

    def on_save_checkpoint(self, trainer: Any, pl_module: nn.Module, _checkpoint: dict[str, Any]) -> None:
        """Lightning is about to write a checkpoint."""
        if self.at == "save" and trainer.is_global_zero:
            self._checkpoint(pl_module, trainer.global_step)

    def on_train_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:
        """An epoch of Lightning ends."""
        if self.at == "epoch" and trainer.is_global_zero:
            self._checkpoint(pl_module, trainer.global_step)

    # what transformers.Trainer calls

    def on_train_begin(self, args: Any, _state: Any, _control: Any, **_kwargs: Any) -> None:
        """Refuse a training that saves no checkpoint."""
        strategy = getattr(args.save_strategy, "value", args.save_strategy)
        if self.at == "save" and strategy == "no":
            raise NoCheckpointsError("this Trainer saves no checkpoints (save_strategy='no')")

    def on_save(self, _args: Any, state: Any, _control: Any, **kwargs: Any) -> None:
        """The Hugging Face Trainer has written a checkpoint."""
        if self.at == "save" and state.is_world_process_zero:
            self._checkpoint(kwargs["model"], state.global_step)

    def on_epoch_end(self, _args: Any, state: Any, _control: Any, **kwargs: Any) -> None:
        """An epoch of the Hugging Face Trainer ends."""
        if self.at == "epoch" and state.is_world_process_zero:
            self._checkpoint(kwargs["model"], state.global_step)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Every other hook or event of the frameworks: a function that does nothing."""
        if name.startswith("on_"):
            return _nothing
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _weights(network: nn.Module) -> str | None:
    """Their hash; None where some have no values, which the audit refuses in its own words."""
    tensors = [*network.parameters(), *network.buffers()]
    known = has_values(network) and not any(is_lazy(tensor) for tensor in tensors)
    return state_dict_sha256(network) if known else None


def _is_of(report: AuditReport, weights: str | None) -> bool:
    return report.model.state_dict_sha256 == weights


def _occupied(path: Path, what: str) -> UsageError:
    return UsageError(f"{path} is {what}: choose another folder for this run, or overwrite=True to replace reports")


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """What is called where an audit has nothing to do."""
