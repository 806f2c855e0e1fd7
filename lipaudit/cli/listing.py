"""What can be looked up: names of models, methods, rules, and the schema of reports."""

from __future__ import annotations

import click

from lipaudit.catalog.model_names import ModelNames, collect_names, kept_names
from lipaudit.cli.display_options import text_width
from lipaudit.cli.options import debug_option
from lipaudit.cli.terminal import emit, import_frameworks, shielded
from lipaudit.errors import ConflictError, ModelNotFoundError


def model_names(debug: bool = False, quiet: bool = False) -> ModelNames:
    """The names of both registries: those kept for the installed versions, or from the registries, which takes seconds."""
    names = kept_names()
    if names is None:
        with shielded(debug, quiet):
            import_frameworks()
            names = collect_names()
    return names


@click.command("list")
@click.argument("pattern", default="*")
@debug_option
@click.pass_context
def list_names(ctx: click.Context, /, pattern: str) -> int:
    """List the model names that match PATTERN ('resnet*', 'timm:vit_*')."""
    names = model_names(ctx.find_root().obj.debug).matching(pattern)
    if not names:
        raise ModelNotFoundError(f"no model name of torchvision or timm matches {pattern!r}; try a shorter pattern")
    emit("\n".join(names))
    return 0


_list_format = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    show_default=True,
    help="table is for a terminal, markdown for a page.",
)


@click.command("methods")
@click.argument("pattern", default="*")
@_list_format
@debug_option
@click.pass_context
def list_methods(ctx: click.Context, /, pattern: str, form: str) -> int:
    """List the methods for --method and compare, what each computes and what its figure is worth ('sedghi*')."""
    with shielded(ctx.find_root().obj.debug):
        from lipaudit.catalog.methods import find_methods, render

        text = render(find_methods(pattern), form, text_width())
    emit(text)
    return 0


@click.command("rules")
@click.argument("pattern", default="*")
@_list_format
@debug_option
@click.pass_context
def list_rules(ctx: click.Context, /, pattern: str, form: str) -> int:
    """List operations and their constants ('softmax', 'conv*')."""
    with shielded(ctx.find_root().obj.debug):
        from lipaudit.catalog.rules import find_rules, render

        text = render(find_rules(pattern), form, text_width())
    emit(text)
    return 0


@click.command()
@click.option("--several", is_flag=True, help="The schema of the array that an audit of several models writes.")
@click.option("--certification", is_flag=True, help="The schema of what `lipaudit certify` writes.")
@debug_option
def schema(several: bool, certification: bool) -> int:
    """Print the JSON schema of audits (the JSON of compare is another format)."""
    from lipaudit.records.schema import certification_schema_text, schema_text, several_schema_text

    if several and certification:
        raise ConflictError("--several", "--certification", "they are schemas of different documents")
    text = certification_schema_text() if certification else several_schema_text() if several else schema_text()
    emit(text.rstrip("\n"))
    return 0
