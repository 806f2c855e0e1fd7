"""The command line: the one place that prints. Data goes to stdout, everything else to stderr.

Nothing here imports torch before a model is audited, so that help is instant.

Exit codes: 0 done; 1 a gate is exceeded; 2 usage; 3 a model cannot be loaded or captured; 4 ``--strict`` and something
is unsupported or unbounded; 70 a defect of lipaudit; 130 interrupted.
"""

from __future__ import annotations

import errno
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipaudit import __version__
from lipaudit.errors import ModelNotFoundError, OutputError, UsageError
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
  lipaudit model.onnx --domain ball --around cat.png --radius 0.5 --mean 0.5 --std 0.25
  lipaudit reproduce spectral-table

\b
Exit codes:
  0    done
  1    a gate is exceeded (--max-log10-bound)
  2    the request is wrong
  3    a model cannot be loaded or captured
  4    --strict, and something is unsupported or unbounded
  70   a defect of lipaudit (--debug shows the traceback)
  130  interrupted
"""


@dataclass
class _State:
    debug: bool = False


class _AuditByDefault(click.Group):
    """``lipaudit MODEL`` is ``lipaudit audit MODEL``: whatever is no verb starts the arguments of ``audit``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help", "--version"):
            args = ["audit", *args]
        return super().parse_args(ctx, args)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error becomes one line on stderr."""
    state = _State()
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


def _debug_option(function: Callable[..., Any]) -> Callable[..., Any]:
    def remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.ensure_object(_State).debug = value

    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="Show tracebacks and the warnings of other packages.",
    )(function)


def _finite(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def _positive(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    _finite(ctx, parameter, value)
    if value is not None and value <= 0:
        raise click.BadParameter(f"{value} is not above 0")
    return value


def _channels(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Numbers separated by commas, one per channel."""
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of numbers such as 0.485,0.456,0.406") from None


def _listed(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    return None if value is None else tuple(part.strip() for part in value.split(","))


_input_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SIZE",
    help="Input shape: H or CxHxW for image models by name or file, CxHxW for your own image models, else "
    "NAME:FULL,SHAPE with a batch axis of 1 (once per input). Default: the model's own.",
)
_weights_option = click.option(
    "--weights",
    metavar="TAG|FILE|random",
    help="Weights to load; 'random' for those that a training would start from, without a download.",
)
_arch_option = click.option("--arch", metavar="NAME", help="Architecture that a file of weights belongs to.")
_device_option = click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
_seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of everything that is random."
)


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
@_input_option
@_weights_option
@_arch_option
@_device_option
@click.option(
    "--tol",
    type=float,
    default=1e-3,
    show_default=True,
    callback=_positive,
    help="Relative tolerance of each row's matrix norm or maximum over frequencies. The border of zero-padded "
    "convolutions may leave a larger ratio.",
)
@click.option(
    "--structure",
    is_flag=True,
    help="Only say which operations and whether the network have a finite bound, in seconds and without weights.",
)
@click.option(
    "--domain",
    type=click.Choice(["global", "pixels", "ball"]),
    default="global",
    show_default=True,
    help="The inputs over which the bound holds: all of them; images with pixels in [0, 1]; a ball around one input. "
    "Gating and attention often have a bound on the last two only.",
)
@click.option(
    "--around",
    metavar="IMAGE",
    help="Centre of the ball: a PNG or JPEG file, resized to the network's input; or a tensor (.npy, .pt) that the "
    "network reads as it is.",
)
@click.option(
    "--radius",
    type=float,
    metavar="R",
    callback=_positive,
    help="Radius of the ball (l2): in pixels in [0, 1] around an image, in the network's own input around a tensor.",
)
@click.option(
    "--mean",
    metavar="A,B,C",
    callback=_channels,
    help="Normalisation of the pixels, (pixel - mean) / std, one number per channel or one for all. Default: the model's "
    "own, where it is known; an ONNX file has none.",
)
@click.option("--std", metavar="A,B,C", callback=_channels, help="See --mean.")
@click.option(
    "--method",
    metavar="NAME",
    default="gram",
    show_default=True,
    help="How the norms of convolutions and matrices are found: gram is certified; a published method (sedghi2019, ...) may "
    "give estimates, which are marked and pass no gate.",
)
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    metavar="N",
    help="Iterations or samples of a published method that has any. Default: its paper's own number.",
)
@click.option("--lower-bound", is_flag=True, help="Also search the network's Jacobian for an empirical lower bound.")
@_seed_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "markdown", "tsv"]),
    default="table",
    show_default=True,
    help="JSON is one object, or an array for several models.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the report to this file, whole or not at all."
)
@click.option(
    "--columns",
    metavar="A,B,...",
    help="Columns of the table: layer, op, weight, input, geometry, lower, upper, log10, "
    "ratio, share, rule, rigor, status, note, reads, folded. At a terminal they must fit 100 characters; in a file or "
    "a pipe the table is as wide as they need.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help="Sum rows deeper than this many path components (between '.' or '/') into one.",
)
@click.option("--quiet", is_flag=True, help="Nothing on stderr but errors, failed gates and what --strict finds.")
@click.option("--strict", is_flag=True, help="End with 4 if anything is unsupported or unbounded over the domain.")
@click.option(
    "--max-log10-bound",
    "gate",
    type=float,
    callback=_finite,
    metavar="X",
    help="End with 1 unless the network's bound over the domain is finite and at most 10^X.",
)
@_debug_option
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
    _check_domain(options)
    _check_method(options)
    file = None if output == Path("-") else output
    layout = Layout.parse(form, columns, depth, wide=file is not None or not sys.stdout.isatty())
    if file:
        check_writable(file)
    options["input_shape"] = _input_shape(inputs)
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
@click.option(
    "--methods",
    metavar="A,B,...",
    callback=_listed,
    help="Methods to compare, by name. Default: every method.",
)
@_input_option
@_weights_option
@_arch_option
@_device_option
@click.option(
    "--tol",
    type=float,
    default=1e-3,
    show_default=True,
    callback=_positive,
    help="Relative tolerance of the certified bounds that the figures are judged by.",
)
@_seed_option
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    metavar="N",
    help="Iterations or samples of the methods that have any. Default: each paper's own number.",
)
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    callback=_positive,
    help="A method that has used up its seconds measures nothing more; a measurement that has begun is finished.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "markdown", "tsv"]),
    default="table",
    show_default=True,
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the comparison to this file, whole or not at all."
)
@click.option("--quiet", is_flag=True, help="Nothing on stderr but errors.")
@_debug_option
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
    """Compare published methods on every layer of MODEL with certified bounds of the layer's norm."""
    from lipaudit.report.write import check_no_model, check_writable, write_whole

    debug: bool = ctx.find_root().obj.debug
    file = None if output == Path("-") else output
    if file:
        check_writable(file)
        check_no_model(file, [model, options["weights"] or ""])
    options["input_shape"] = _input_shape(inputs)
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
@_device_option
@_weights_option
@_seed_option
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("lipaudit-reproduce"),
    show_default=True,
    metavar="DIR",
    help="Folder for the tables as CSV and the plots as PNG; created where it is missing.",
)
@_debug_option
@click.pass_context
def reproduce(ctx: click.Context, /, names: tuple[str, ...], folder: Path, weights: str | None, **options: Any) -> int:
    """Reproduce tables and figures of the paper on Gram iteration; without NAME, list them."""
    debug: bool = ctx.find_root().obj.debug
    with shielded(debug):
        from lipaudit.experiments.registry import all_experiments
        from lipaudit.experiments.render import listing, render
        from lipaudit.experiments.run import choose, missing_plot, run
        from lipaudit.experiments.write import prepare_folder, write

        chosen = choose(names, weights)
    if not chosen:
        emit(listing(all_experiments()))
        return 0
    prepare_folder(folder)
    codes = [0]
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
        emit(("\n\n" if experiment is not chosen[0] else "") + render(result))
        with shielded(debug):
            written = write(result, folder)
        say(f"lipaudit: written to {', '.join(map(str, written))}{missing_plot(result)}")
    return max(codes, key=_SEVERITY.index)


@cli.command("list")
@click.argument("pattern", default="*")
@_debug_option
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


@cli.command("rules")
@click.argument("pattern", default="*")
@click.option("--format", "form", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True)
@_debug_option
@click.pass_context
def list_rules(ctx: click.Context, /, pattern: str, form: str) -> int:
    """List operations and their constants ('softmax', 'conv*')."""
    with shielded(ctx.find_root().obj.debug):
        from lipaudit.report.rule_list import find_rules, render

        text = render(find_rules(pattern), form)
    emit(text)
    return 0


@cli.command()
@_debug_option
def schema() -> int:
    """Print the JSON schema of the report."""
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


def _check_domain(options: dict[str, Any]) -> None:
    """Refuse what does not go together before any model is loaded."""
    if options["domain"] == "global" and all(options[key] is None for key in ("around", "radius", "mean", "std")):
        return
    from lipaudit.frontends.domains import DomainRequest, check_normalisation

    DomainRequest(options["domain"], options["around"], options["radius"])
    check_normalisation(options["mean"], options["std"])


def _check_method(options: dict[str, Any]) -> None:
    """Refuse an unknown method, or what does not go with it, before any model is loaded."""
    if options["method"] == "gram" and options["iterations"] is None:
        return
    if options["structure"]:
        raise UsageError("--structure computes no norms: leave out --method and --iterations")
    from lipaudit.frontends.methods import find_requested

    find_requested(options["method"], options["iterations"])


def _input_shape(texts: tuple[str, ...]) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    if not texts:
        return None
    from lipaudit.frontends.spec import parse_input

    shapes = [parse_input(text) for text in texts]
    if len(shapes) == 1 and not shapes[0][0]:
        return shapes[0][1]
    names = [name for name, _ in shapes]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError("several inputs need a name each: --input left:1,3,64,64 --input right:1,3,64,64")
    return dict(shapes)
