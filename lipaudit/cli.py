"""The command line: the one place that prints. Data goes to stdout, everything else to stderr.

Nothing here imports torch before a model is audited, so that help is instant.

Exit codes: 0 done; 1 a gate is exceeded; 2 usage; 3 a model cannot be loaded or captured; 4 ``--strict`` and something
is unsupported, unbounded or an estimate; 70 a defect of lipaudit; 130 interrupted.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lipaudit import __version__
from lipaudit.errors import ModelNotFoundError, OutputError, UsageError
from lipaudit.options import (
    State,
    audit_options,
    check_domain,
    check_method,
    compare_options,
    debug_option,
    device_option,
    experiment_weights_option,
    folder_option,
    input_shape,
    seed_option,
)
from lipaudit.terminal import (
    BUG,
    Progress,
    complain,
    emit,
    flush,
    one_line,
    replace_closed_streams,
    say,
    shielded,
    tolerate_any_character,
)

if TYPE_CHECKING:
    from lipaudit.experiments.result import Result
    from lipaudit.report.record import AuditReport

_INTERRUPTED = 130
# with several models the command ends with the code furthest to the right
_SEVERITY = (0, 1, 4, 3, 2, BUG)

_EPILOG = """\b
Examples:
  lipaudit resnet50 --input 224
  lipaudit model.onnx --lower-bound
  lipaudit weights.safetensors --arch resnet18 --format json -o report.json
  lipaudit 'timm:resnet18.*' --format tsv
  lipaudit model.onnx --quiet --strict --max-log10-bound 12
  lipaudit timm:vit_tiny_patch16_224 --domain pixels
  lipaudit model.onnx --method sedghi2019
  lipaudit compare model.onnx --methods sedghi2019,ryu2019
  lipaudit methods
  lipaudit model.onnx --domain ball --around cat.png --radius 0.5 --mean 0.5 --std 0.25
  lipaudit reproduce spectral-table

\b
Exit codes:
  0    done
  1    a gate is exceeded (--max-log10-bound)
  2    the request is wrong
  3    a model cannot be loaded or captured
  4    --strict, and something is unsupported, unbounded or an estimate
  70   a defect of lipaudit (--debug shows the traceback)
  130  interrupted
"""


class _AuditByDefault(click.Group):
    """``lipaudit MODEL`` is ``lipaudit audit MODEL``: whatever is no verb starts the arguments of ``audit``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help", "--version"):
            args = ["audit", *args]
        return super().parse_args(ctx, args)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error becomes one line on stderr."""
    state = State()
    replace_closed_streams()
    tolerate_any_character()
    try:
        code = cli.main(
            args=None if args is None else list(args), prog_name="lipaudit", standalone_mode=False, obj=state
        )
        flush()
    except click.Abort:
        say("lipaudit: interrupted")
        return _INTERRUPTED
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        say(f"lipaudit: error: {one_line(error.format_message())}{where}")
        return 2
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO) or error.filename is not None:
            return complain(error, state.debug)
        # the help and the version, which click prints itself
        return complain(OutputError(f"cannot write to stdout: {error.strerror}; redirect it elsewhere"), state.debug)
    except Exception as error:
        return complain(error, state.debug)
    return code if isinstance(code, int) else 0


@click.group(
    cls=_AuditByDefault,
    epilog=_EPILOG,
    options_metavar="",
    subcommand_metavar="MODEL... | VERB ...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="lipaudit %(version)s")
def cli() -> None:
    """Audit how far a pretrained network can stretch a change of its input.

    Certified upper bounds of the l2 Lipschitz constant, layer by layer and for the whole network. `lipaudit MODEL...`
    is short for `lipaudit audit MODEL...`.

    MODEL is a file (.onnx; .pt2; .pt, .pth or .safetensors with --arch NAME), a torchvision or timm name (resnet50,
    torchvision:resnet50@IMAGENET1K_V2, timm:resnet18.a1_in1k; wildcards as in 'timm:resnet18.*'), or
    package.module:factory.
    """


@cli.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@audit_options
@debug_option
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    models: tuple[str, ...],
    inputs: tuple[str, ...],
    form: str,
    output: Path | None,
    columns: str | None,
    depth: int | None,
    quiet: bool,
    strict: bool,
    gate: float | None,
    **options: Any,
) -> int:
    """Audit one or several models (the verb may be left out)."""
    from lipaudit.report.render import Layout
    from lipaudit.report.write import check_no_model, check_writable, write_whole

    debug: bool = ctx.find_root().obj.debug
    if gate is not None and options["structure"]:
        raise UsageError("--structure computes no figures, and --max-log10-bound needs one: leave out one of them")
    check_domain(options)
    check_method(options)
    file = None if output == Path("-") else output
    layout = Layout.parse(form, columns, depth, wide=file is not None or not sys.stdout.isatty())
    if file:
        check_writable(file)
    options["input_shape"] = input_shape(inputs)
    specs, codes = _expand_all(models, debug, quiet)
    if file:
        check_no_model(file, [*specs, options["weights"] or "", options["around"] or ""])
    several = len(models) > 1 or len(specs) > 1
    streamed = layout.separable and file is None
    reports: list[AuditReport] = []
    for spec in specs:
        try:
            report = _audit_one(spec, options, debug, quiet)
            text = layout.render([report]) if streamed else ""
        except Exception as error:
            codes.append(complain(error, debug, spec if several else ""))
            continue
        if streamed:
            emit(("\n\n" if reports else "") + text)
        reports.append(report)
        codes.append(_judge(report, strict, gate))
    if reports and file:
        write_whole(file, layout.render(reports, several) + "\n")
        if not quiet:
            say(f"lipaudit: report written to {file}")
    elif reports and not streamed:
        emit(layout.render(reports, several))
    return max(codes, key=_SEVERITY.index)


@cli.command()
@click.argument("model")
@compare_options
@debug_option
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    model: str,
    inputs: tuple[str, ...],
    form: str,
    output: Path | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Compare published methods on every layer of MODEL with certified bounds of the layer's norm.

    `lipaudit methods` lists the methods.
    """
    from lipaudit.report.write import check_no_model, check_writable, write_whole

    debug: bool = ctx.find_root().obj.debug
    file = None if output == Path("-") else output
    if file:
        check_writable(file)
        check_no_model(file, [model, options["weights"] or ""])
    options["input_shape"] = input_shape(inputs)
    progress = Progress(model) if not quiet and sys.stderr.isatty() else None
    try:
        with shielded(debug, quiet):
            from lipaudit.api import compare as run_comparison
            from lipaudit.report.comparison_text import RENDERINGS

            text = RENDERINGS[form](run_comparison(model, **options, progress=progress))
    finally:
        if progress:
            progress.finish()
    if file:
        write_whole(file, text + "\n")
        if not quiet:
            say(f"lipaudit: comparison written to {file}")
    else:
        emit(text)
    return 0


@cli.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--full", is_flag=True, help="The paper's sizes, meant for a GPU, instead of reduced ones.")
@device_option
@experiment_weights_option
@seed_option
@folder_option
@debug_option
@click.pass_context
def reproduce(ctx: click.Context, /, names: tuple[str, ...], folder: Path, weights: str | None, **options: Any) -> int:
    """Reproduce tables and figures of the paper on Gram iteration; without NAME, list them.

    The paper is Delattre, Barthélemy, Araujo and Allauzen, Efficient Bound of Lipschitz Constant for Convolutional Layers by
    Gram Iteration, ICML 2023. Of the experiments, resnet18-layers and network-ratios read --weights.
    """
    debug: bool = ctx.find_root().obj.debug
    with shielded(debug):
        from lipaudit.experiments.registry import all_experiments
        from lipaudit.experiments.render import listing
        from lipaudit.experiments.run import check, choose, run
        from lipaudit.experiments.write import output_folder

        chosen = choose(names, weights)
    if not chosen:
        _refuse_options(ctx)
        emit(listing(all_experiments()))
        return 0
    with shielded(debug):
        check(chosen, weights=weights, **options)
    codes = [0]
    with output_folder(folder, [experiment.name for experiment in chosen]):
        for experiment in chosen:
            progress = Progress(experiment.name) if sys.stderr.isatty() else None
            try:
                with shielded(debug):
                    result = run(experiment, weights=weights, progress=progress, **options)
            except Exception as error:
                codes.append(complain(error, debug, experiment.name if len(chosen) > 1 else ""))
                continue
            finally:
                if progress:
                    progress.finish()
            _deliver(result, folder, "" if experiment is chosen[0] else "\n\n", debug)
    return max(codes, key=_SEVERITY.index)


def _refuse_options(ctx: click.Context) -> None:
    """A list of experiments takes no options: one was meant for an experiment."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name not in ("names", "debug") and source is ParameterSource.COMMANDLINE:
            raise UsageError(f"{parameter.opts[-1]} needs the NAME of an experiment; without options they are listed")


def _deliver(result: Result, folder: Path, before: str, debug: bool) -> None:
    """Files first, so that a stdout that takes nothing loses nothing; and the text where the files cannot be written."""
    from lipaudit.experiments.render import render
    from lipaudit.experiments.run import missing_plot
    from lipaudit.experiments.write import write

    text = before + render(result)
    try:
        with shielded(debug):
            written, missing = write(result, folder), missing_plot(result)
    except OutputError:
        emit(text)
        raise
    try:
        emit(text)
    finally:
        say(f"lipaudit: written to {', '.join(map(str, written))}{missing}")


@cli.command("list")
@click.argument("pattern", default="*")
@debug_option
@click.pass_context
def list_names(ctx: click.Context, /, pattern: str) -> int:
    """List the model names that match PATTERN ('resnet*', 'timm:vit_*')."""
    with shielded(ctx.find_root().obj.debug):
        from lipaudit.frontends import list_models

        names = list(list_models(pattern))
    if not names:
        raise ModelNotFoundError(f"no model name of torchvision or timm matches {pattern!r}; try a shorter pattern")
    emit("\n".join(names))
    return 0


_list_format = click.option(
    "--format", "form", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True
)


@cli.command("methods")
@click.argument("pattern", default="*")
@_list_format
@debug_option
@click.pass_context
def list_methods(ctx: click.Context, /, pattern: str, form: str) -> int:
    """List the methods for --method and compare, what each computes and what its figure is worth ('sedghi*')."""
    with shielded(ctx.find_root().obj.debug):
        from lipaudit.report.method_list import find_methods, render

        text = render(find_methods(pattern), form)
    emit(text)
    return 0


@cli.command("rules")
@click.argument("pattern", default="*")
@_list_format
@debug_option
@click.pass_context
def list_rules(ctx: click.Context, /, pattern: str, form: str) -> int:
    """List operations and their constants ('softmax', 'conv*')."""
    with shielded(ctx.find_root().obj.debug):
        from lipaudit.report.rule_list import find_rules, render

        text = render(find_rules(pattern), form)
    emit(text)
    return 0


@cli.command()
@debug_option
def schema() -> int:
    """Print the JSON schema of audits (the JSON of compare is another format)."""
    from lipaudit.report.schema import schema_text

    emit(schema_text().rstrip("\n"))
    return 0


def _expand_all(models: Sequence[str], debug: bool, quiet: bool) -> tuple[list[str], list[int]]:
    """Every model that the specifications stand for, and the exit codes of those that stand for none."""
    specs: list[str] = []
    codes = [0]
    for model in models:
        try:
            with shielded(debug, quiet):
                from lipaudit.frontends import expand

                specs += expand(model)
        except Exception as error:
            codes.append(complain(error, debug, model if len(models) > 1 else ""))
    return specs, codes


def _audit_one(spec: str, options: dict[str, Any], debug: bool, quiet: bool) -> AuditReport:
    progress = Progress(spec) if not quiet and sys.stderr.isatty() else None
    try:
        with shielded(debug, quiet):
            from lipaudit.api import audit as run_audit

            report: AuditReport = run_audit(spec, **options, progress=progress)
            return report
    finally:
        if progress:
            progress.finish()


def _judge(report: AuditReport, strict: bool, gate: float | None) -> int:
    """The exit code that a report deserves, explained on stderr."""
    from lipaudit.report.gate import gate_problem, strict_problem

    code = 0
    if gate is not None and (problem := gate_problem(report, gate)):
        say(f"lipaudit: gate exceeded: {report.model.spec}: {problem} (--max-log10-bound {gate!r})")
        code = 1
    if strict and (problem := strict_problem(report)):
        say(f"lipaudit: strict: {report.model.spec}: {problem}")
        code = 4
    return code
