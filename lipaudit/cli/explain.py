"""``lipaudit explain TOPIC``: what the words and figures of a report mean. Needs neither torch nor a model."""

from __future__ import annotations

import textwrap

import click
from click.shell_completion import CompletionItem

from lipaudit.cli.display_options import text_width
from lipaudit.cli.options import debug_option
from lipaudit.cli.terminal import emit
from lipaudit.text.explanations import TOPICS, Topic, find_topic


def _complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=topic.summary) for name, topic in TOPICS.items() if name.startswith(incomplete)]


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=_complete)
@debug_option
def explain(topics: tuple[str, ...]) -> int:
    """Explain what a report says, by topics such as bound, share, rigor, segment and block.

    Without a topic, list them.
    """
    width = text_width()
    emit(
        "\n\n\n".join(_explained(topic, width) for topic in dict.fromkeys(map(find_topic, topics)))
        if topics
        else _listed(width)
    )
    return 0


def _explained(topic: Topic, width: int) -> str:
    parts = [f"{topic.name}: {topic.summary}", *topic.paragraphs]
    return "\n\n".join(textwrap.fill(part, width, break_on_hyphens=False) for part in parts)


def _listed(width: int) -> str:
    margin = max(map(len, TOPICS)) + 2
    lines = [
        textwrap.fill(topic.summary, width, initial_indent=name.ljust(margin), subsequent_indent=" " * margin)
        for name, topic in TOPICS.items()
    ]
    return "\n".join([*lines, "", "lipaudit explain TOPIC shows one."])
