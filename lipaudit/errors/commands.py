"""What is wrong with a command: its options together, the list of its models, the saved reports that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lipaudit.errors import UsageError


class LocatedError(UsageError):
    """Another error, with the place at which it happened in front.

    >>> print(LocatedError("report.json", UsageError("it has no layers")))
    report.json: it has no layers
    """

    def __init__(self, place: object, error: Exception) -> None:
        super().__init__(f"{place}: {error}")
        self.error = error


class OneModelError(UsageError):
    """An option that serves one model, and several of them.

    >>> print(OneModelError("--plot", "draws", 3))
    --plot draws one model, got 3: audit that model alone, or leave out --plot
    """

    def __init__(self, option: str, does: str, models: int | str) -> None:
        super().__init__(f"{option} {does} one model, got {models}: audit that model alone, or leave out {option}")


class FleetFormatError(UsageError):
    """A format of one report for a fleet."""

    def __init__(self, form: str) -> None:
        super().__init__(
            f"{form} describes one model, and a fleet has several: keep the record with -o FILE.jsonl, then "
            f"`lipaudit export FILE.jsonl --to {form} --model SPEC`"
        )


class FleetTableError(UsageError):
    """Options that shape the table of one model, for a fleet."""

    def __init__(self, options: Sequence[str]) -> None:
        super().__init__(
            f"{' and '.join(options)}: a fleet has one summary, and this shapes the tables of single models"
        )


class WholeFormatError(UsageError):
    """Options that shape a table, for a format that has everything."""

    def __init__(self, options: Sequence[str], form: str) -> None:
        super().__init__(f"{' and '.join(options)} shape the table; --format {form} is always whole")


class FormatOptionError(UsageError):
    """An option of one format, for another."""

    def __init__(self, option: str, form: str, chosen: str) -> None:
        super().__init__(f"{option} is for --to {form}, not for {chosen}")


class MissingFormatError(UsageError):
    """No format, and no file whose name tells it."""

    def __init__(self, formats: Iterable[str]) -> None:
        super().__init__(
            f"the format is missing: give --to ({', '.join(formats)}), or a file whose name tells it, as -o report.html, report.sarif or "
            "report.xml"
        )


class UnjudgedFormatError(UsageError):
    """A gate for a format that has no place for it."""

    def __init__(self, form: str, gate: str, judging: Iterable[str]) -> None:
        super().__init__(f"{form} has no place for gates: {gate} is for {' and '.join(judging)}")


class UnreadableCardError(UsageError):
    """A model card that cannot be read."""

    def __init__(self, card: Path, error: Exception) -> None:
        super().__init__(f"cannot read the card {card}: {error}; it must be a text in UTF-8")


class MissingPackageError(UsageError):
    """An option that uses a package which is not installed."""

    def __init__(self, option: str, problem: str, extra: str) -> None:
        super().__init__(f"{option} cannot be used here: {problem}; install it with pip install 'lipaudit[{extra}]'")


class SameFileError(UsageError):
    """Two options that name one file."""

    def __init__(self, option: str, other: str, file: Path) -> None:
        super().__init__(f"{option} and {other} name the same file {file}: name two")


class ReplacedInputError(UsageError):
    """A file that would replace one which the command reads."""

    def __init__(self, option: str, file: Path, read: str, reader: str) -> None:
        super().__init__(f"{option} {file} would replace {read}, which the {reader} reads; name another file")


class UnnamedInputsError(UsageError):
    """Several sizes, of which not every one is for an input of its own."""

    def __init__(self) -> None:
        super().__init__("several inputs need a name each: --input left:1,3,64,64 --input right:1,3,64,64")


class UnknownVerbError(UsageError):
    """A word that is nearly a verb."""

    def __init__(self, word: str, near: str) -> None:
        super().__init__(f"there is no verb {word!r}: did you mean `lipaudit {near}`?")


class MissingExperimentError(UsageError):
    """Options for an experiment that is not named."""

    def __init__(self, option: str) -> None:
        super().__init__(f"{option} requires the NAME of an experiment; without options they are listed")


# lists of models


class UnreadableListError(UsageError):
    """A list of models that cannot be read."""

    def __init__(self, source: str, reason: object, advice: str = "check the path") -> None:
        super().__init__(f"the models cannot be read from {source} ({reason}): {advice}")


class EmptyModelListError(UsageError):
    """A list of models without any."""

    def __init__(self, source: str) -> None:
        super().__init__(f"{source} names no model: write one per line")


class ModelLinesError(UsageError):
    """Lines of a list of models that are wrong: the first with its problem, the numbers of the others."""

    def __init__(self, source: str, problems: Sequence[tuple[int, str]]) -> None:
        (number, problem), *others = problems
        listed = ", ".join(str(n) for n, _ in others[:9]) + (", …" if len(others) > 9 else "")
        more = f" (and so are lines {listed})" if others else ""
        super().__init__(f"{source}, line {number} is wrong{more}: {' '.join(problem.split())}")


class QuotingError(UsageError):
    """A line that is not quoted as in a shell."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{error}; quote names as in a shell, or write a JSON object")


class FleetWideOptionError(UsageError):
    """An option of the whole fleet at one model."""

    def __init__(self, option: str) -> None:
        super().__init__(f"{option} holds for the whole fleet: give it on the command line")


class MissingModelKeyError(UsageError):
    """A JSON object that names no model."""

    def __init__(self) -> None:
        super().__init__('"model" is missing or not a text: {"model": "resnet50", "input": "3x224x224"}')


# saved reports


class UnreadableReportError(UsageError):
    """A saved report that cannot be read."""

    def __init__(self, source: str, reason: object) -> None:
        super().__init__(
            f"cannot read the report {source}: {reason}; name a file from `lipaudit --format json` or the record of a fleet"
        )


class UnknownReportError(UsageError):
    """A model of which a file of several has no report."""

    def __init__(self, source: str, wanted: str, models: str) -> None:
        super().__init__(f"{source} has no model {wanted!r}: it has {models}")


class SeveralReportsError(UsageError):
    """Several models in a file where one is needed."""

    def __init__(self, source: str, count: int, models: str) -> None:
        super().__init__(f"{source} has {count} models: name one with --model SPEC ({models})")


class RepeatedReportError(UsageError):
    """Several reports of one model in a file."""

    def __init__(self, source: str, count: int, model: str) -> None:
        super().__init__(f"{source} has {count} reports of {model}: write one file per report")


class NoReportError(UsageError):
    """A model that could not be audited, so that it has no report."""

    def __init__(self, source: str, model: str, error: str) -> None:
        super().__init__(f"{source}: {model} could not be audited, so there is no report of it: {error}")


class ModelForReportError(UsageError):
    """A model in the place of its report."""

    def __init__(self, source: str, report: str) -> None:
        super().__init__(
            f"{source} is a model or its weights, and this command reads reports: audit it first, `lipaudit {source} -o {report}`, then "
            f"name {report}"
        )


class RenderedReportError(UsageError):
    """A page or a table in the place of a report."""

    def __init__(self, source: str, report: str) -> None:
        super().__init__(
            f"{source} is for people or spreadsheets and is not read back: save the report as JSON, -o {report}"
        )


class EmptyRecordError(UsageError):
    """A record of a fleet without an outcome."""

    def __init__(self) -> None:
        super().__init__("the record holds no outcome yet: the command that writes it continues where it ended")


class ModelCountError(UsageError):
    """More models than reports to compare."""

    def __init__(self) -> None:
        super().__init__("--model names the models of BEFORE and AFTER: give it once or twice")
