"""The command line: the one place that prints. Data goes to stdout, everything else to stderr.

Nothing here imports torch before a model is audited, so that help is instant.

Exit codes: 0 done; 1 a gate is exceeded; 2 usage; 3 a model cannot be loaded or captured; 4 ``--strict`` and something
is unsupported, unbounded or an estimate; 70 a defect of lipaudit; 130 interrupted.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from lipaudit.cli.audit import audit
from lipaudit.cli.certify import certify
from lipaudit.cli.compare import compare
from lipaudit.cli.completion import complete_model
from lipaudit.cli.diff import diff
from lipaudit.cli.explain import explain
from lipaudit.cli.export import export
from lipaudit.cli.listing import list_methods, list_names, list_rules, schema
from lipaudit.cli.options import State
from lipaudit.cli.reproduce import reproduce
from lipaudit.cli.terminal import (
    INTERRUPTED,
    complain,
    flush,
    one_line,
    replace_closed_streams,
    say,
    tolerate_any_character,
)
from lipaudit.cli.verify import verify
from lipaudit.errors import OutputError
from lipaudit.errors.commands import UnknownVerbError
from lipaudit.fleet.interrupts import raise_remembered, remembered
from lipaudit.option_names import command_line
from lipaudit.version import __version__

_EPILOG = """\b
Examples:
  lipaudit resnet50 --input 224
  lipaudit model.onnx --lower-bound
  lipaudit weights.safetensors --arch resnet18 --format json -o report.json
  lipaudit 'timm:resnet18.*' --format tsv
  lipaudit model.onnx -q --strict --max-log10-bound 12
  lipaudit export report.json --to huggingface --card README.md
  lipaudit timm:vit_tiny_patch16_224 --domain pixels
  lipaudit model.onnx --method sedghi2019
  lipaudit --models-from models.txt --jobs 4 -o fleet.jsonl
  lipaudit certify model.onnx images/ --mean 0.5 --std 0.25
  lipaudit compare model.onnx --methods sedghi2019,ryu2019
  lipaudit methods
  lipaudit diff before.json after.json --max-growth 1.05
  lipaudit verify report.json model.onnx proof.safetensors
  lipaudit model.onnx --domain ball --around x.npy --radius 0.5
  lipaudit reproduce spectral-table

\b
Exit codes:
  0    done
  1    a gate is exceeded (--max-log10-bound, --max-layer, --claim,
       --no-unbounded, --max-growth, --max-layer-growth,
       --min-certified-accuracy), or a report is not verified
  2    the request is wrong
  3    a model cannot be loaded or captured
  4    --strict, and something is unsupported, unbounded or an estimate
  70   a defect of lipaudit (--debug shows the traceback)
  130  interrupted
"""


def _what_it_does(command: click.Command, option: str) -> str:
    """The first sentence of an option's help, behind a space."""
    helps = (p.help for p in command.params if isinstance(p, click.Option) and option in p.opts)
    first = (next(helps, None) or "").partition(". ")[0]
    return f" {first.rstrip('.')}" if first else ""


class _AuditByDefault(click.Group):
    """``lipaudit MODEL`` is ``lipaudit audit MODEL``: whatever is no verb starts the arguments of ``audit``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help", "--version"):
            if not ctx.resilient_parsing:
                self._refuse_misspelt(args[0])
            args = ["audit", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelt(self, word: str) -> None:
        """Refuse a word that is nearly a verb; no model of a registry has such a name, and files and factories have a . or :."""
        near = get_close_matches(word, self.commands, 1, cutoff=0.8)
        if near:
            raise UnknownVerbError(word, near[0])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs and models."""
        return super().shell_complete(ctx, incomplete) + complete_model(ctx, self.params[0], incomplete)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error becomes one line on stderr."""
    state = State(words=tuple(sys.argv[1:] if args is None else args))
    replace_closed_streams()
    tolerate_any_character()
    try:
        with command_line(), remembered():
            code = cli.main(
                args=None if args is None else list(args), prog_name="lipaudit", standalone_mode=False, obj=state
            )
            flush()
            raise_remembered()
    except (click.Abort, KeyboardInterrupt):
        say("lipaudit: interrupted")
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.NoSuchOption as error:
        close = get_close_matches(error.option_name, error.possibilities or (), 3, cutoff=0.75)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        if len(close) == 1 and error.ctx is not None:
            hint += _what_it_does(error.ctx.command, close[0])
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        say(f"lipaudit: error: No such option {one_line(error.option_name)!r}{hint}{where}")
        return 2
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
    no_args_is_help=True,
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

    MODEL is a file (.onnx; .pt2; TorchScript; .pt, .pth, .bin, .ckpt or .safetensors with --arch NAME), a torchvision or timm name
    (resnet50, torchvision:resnet50@IMAGENET1K_V2, timm:resnet18.a1_in1k, hf-hub:OWNER/NAME; wildcards as in 'timm:resnet18.*'), or
    package.module:factory.
    """


for _command in (
    audit,
    certify,
    compare,
    diff,
    explain,
    export,
    reproduce,
    list_names,
    list_methods,
    list_rules,
    schema,
    verify,
):
    cli.add_command(_command)
