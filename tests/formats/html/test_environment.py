"""The templates: nothing is written without being escaped, and what a template does not know is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from lipaudit.formats.html.environment import _environment, number


def rendered(source: str, **values: object) -> str:
    return _environment().from_string(source).render(values)


@given(st.text())
def test_every_value_is_escaped_for_the_terminal_and_for_html(name: str) -> None:
    text = rendered('<b title="{{ name }}">{{ name }}</b>', name=name)
    assert text.isprintable()
    assert not set(text.removeprefix('<b title="').removesuffix("</b>").replace('">', "", 1)) & set("<>\"'")


def test_values_of_macros_and_filters_are_escaped_too() -> None:
    source = "{% macro cell(x) %}<td>{{ x }}</td>{% endmacro %}{{ cell(name) }}{{ names | join('<') }}"
    text = rendered(source, name="<i>\x1b", names=["a", "&"])
    assert text == "<td>&lt;i&gt;\\x1b</td>a&lt;&amp;"


def test_only_markup_is_written_as_it_is() -> None:
    assert rendered("{{ style }}", style=Markup("a > b\n")) == "a > b\n"


@pytest.mark.parametrize("source", ["{{ missing }}", "{{ row.missing }}", "{% for x in missing %}{% endfor %}"])
def test_what_is_not_there_is_an_error(source: str) -> None:
    with pytest.raises(UndefinedError):
        rendered(source, row={})


def test_none_is_not_written() -> None:
    with pytest.raises(TypeError, match="a value that is None"):
        rendered("{{ x }}", x=None)


def test_numbers_have_two_decimals_at_most() -> None:
    assert [number(x) for x in (3, 1 / 3, -0.001, 1000.5)] == ["3", "0.33", "0", "1000.5"]
