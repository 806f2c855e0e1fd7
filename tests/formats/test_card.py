from __future__ import annotations

import re

import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lipaudit.errors import UsageError
from lipaudit.formats.card import BEGIN, END, Card, node, set_key, set_section


def key_set(text: str, value: object, key: str = "lipaudit") -> str:
    return str(set_key(Card.parse(text), key, node(value)))


def section_set(text: str, section: str = "new") -> str:
    return str(set_section(Card.parse(text), section))


CARD = """---
# what this is
license: mit  # of the weights
lipaudit:
  old: 1
  # ours
  deep:
  - 2

# the rest
tags: [a, "b"]
widget:
- text: |
    lipaudit: not this

    ---
---
# Title
"""


def test_only_our_key_is_replaced() -> None:
    assert key_set(CARD, {"new": [1.5]}) == CARD.replace("  old: 1\n  # ours\n  deep:\n  - 2\n", "  new:\n  - 1.5\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "---\nlipaudit: 1\n---\n"),
        ("# Title\n", "---\nlipaudit: 1\n---\n\n# Title\n"),
        ("# Title\r\nmore\n", "---\r\nlipaudit: 1\r\n---\r\n\r\n# Title\r\nmore\n"),
        ("---\n---\n# Title\n\n---\n", "---\nlipaudit: 1\n---\n# Title\n\n---\n"),
        ("---\nlicense: mit\n---", "---\nlicense: mit\nlipaudit: 1\n---"),
        ("\ufeff---\nlicense: mit\n---\n", "\ufeff---\nlicense: mit\nlipaudit: 1\n---\n"),
        ("\ufeff# Title\n", "\ufeff---\nlipaudit: 1\n---\n\n# Title\n"),
        ("\n\n---\nlicense: mit\n---\nx", "\n\n---\nlicense: mit\nlipaudit: 1\n---\nx"),
        ("---\nlipaudit: 2\n# a\n  # b\n\n # c\nz: 1\n---\n", "---\nlipaudit: 1\n# a\n  # b\n\n # c\nz: 1\n---\n"),
        ("---\nlipaudit:\n  a: 1 # in\n  # b\n# c\n---\n", "---\nlipaudit: 1\n  # b\n# c\n---\n"),
        ("---\nlipaudit: |\n  # text\n# a\nz: 1\n---\n", "---\nlipaudit: 1\n# a\nz: 1\n---\n"),
        ("---\nlipaudit:\n- a:\n  - 'b'\n  # c\n---\n", "---\nlipaudit: 1\n  # c\n---\n"),
        ("---\nb: &b 3\nlipaudit: *b\n# a\n---\n", "---\nb: &b 3\nlipaudit: 1\n# a\n---\n"),
        ("---\r\nlicense: mit\r\n---\r\nx\n", "---\r\nlicense: mit\r\nlipaudit: 1\r\n---\r\nx\n"),
        ("---\n# only a comment\n---\n", "---\n# only a comment\nlipaudit: 1\n---\n"),
        ("---\nlipaudit:\nlicense: mit\n---\n", "---\nlipaudit: 1\nlicense: mit\n---\n"),
        ("---\n'lipaudit': {a: 1,\n b: 2}\n# end\n---\n", "---\nlipaudit: 1\n# end\n---\n"),
        ("---\nno metadata, a rule\n", "---\nlipaudit: 1\n---\n\n---\nno metadata, a rule\n"),
    ],
)
def test_cards_of_every_shape(text: str, expected: str) -> None:
    assert key_set(text, 1) == expected
    assert key_set(expected, 1) == expected
    if not text.startswith("\ufeff"):
        assert ModelCard(expected).data.to_dict()["lipaudit"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\n{license: mit}\n---\n", "must be keys, one per line"),
        ("---\n- a\n---\n", "must be keys, one per line"),
        ("---\na: [\n---\n", "no valid YAML"),
        ("---\na: \x01\n---\n", "no valid YAML"),
        ("---\nlipaudit: 1\nlipaudit: 2\n---\n", "has the key lipaudit 2 times"),
        ("---\na: |+\n  text\n\n---\n", "with the key lipaudit set, another key of its metadata would change"),
        ("---\nlipaudit: &x 1\nb: *x\n---\n", "with the key lipaudit set, its metadata would be no valid YAML"),
        ("---\n  a: 1\n---\n", "with the key lipaudit set, its metadata would be no valid YAML"),
        ("---\na: 1\n...\n---\n", "with the key lipaudit set, its metadata would be no valid YAML"),
        ("--- \nlicense: mit\n---\n", "blanks behind the opening line --- of its metadata"),
        ("\ufeff\n---\t\r\nlicense: mit\r\n---  \r\n", "blanks behind the opening line --- of its metadata"),
        ("---\nlicense: mit\n---  \n# Title\n", "blanks behind the closing line --- of its metadata"),
        ("---\nlicense: mit\n--- ", "blanks behind the closing line --- of its metadata"),
        ("---\rlicense: mit\r---\rbody\r", "its lines end in CR alone"),
        ("# Title\rbody", "its lines end in CR alone"),
    ],
)
def test_metadata_that_cannot_be_edited_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        key_set(text, 2)
    assert "the card is unchanged" in str(caught.value)


@pytest.mark.parametrize("value", [1e12, 1e22, 2.5e-7, 0.0, 5e-324, 1.7976931348623157e308, 123456789.0])
def test_numbers_load_as_the_same_floats(value: float) -> None:
    found = yaml.safe_load(key_set("", {"x": value}).strip("-\n"))["lipaudit"]["x"]
    assert (type(found), found) == (float, value)


@pytest.mark.parametrize(
    "text", ["yes", "1e12", "0x1", "null", "~", "a: b", "# c", "- d", "é\u2028\x85\n\ttab", "'", " "]
)
def test_texts_load_as_the_same_texts(text: str) -> None:
    assert ModelCard(key_set("", {text: text})).data.to_dict()["lipaudit"] == {text: text}


def test_a_section_goes_to_the_end_or_where_it_was() -> None:
    first = section_set("# Title\ntext", "one\n\ntwo")
    assert first == f"---\n---\n\n# Title\ntext\n\n{BEGIN}\none\n\ntwo\n{END}\n"
    assert section_set(first + "after\n", "three") == f"---\n---\n\n# Title\ntext\n\n{BEGIN}\nthree\n{END}\nafter\n"


def test_a_section_takes_the_line_ends_of_the_card() -> None:
    card = f"---\r\na: 1\r\n---\r\n{BEGIN}\r\nold\r\n{END}\r\nmixed\n"
    assert section_set(card, "one\ntwo") == f"---\r\na: 1\r\n---\r\n{BEGIN}\r\none\r\ntwo\r\n{END}\r\nmixed\n"
    assert section_set(f"---\na: 1\n---\n{BEGIN}\n{END}", "one") == f"---\na: 1\n---\n{BEGIN}\none\n{END}"


FENCED = [
    f"```html\n{BEGIN}\nold\n{END}\n```\n",
    f"~~~\n```\n{BEGIN}\n{END}\n~~~~\n",
    f"````\n```\n{BEGIN}\n{END}\n````\n",
    f"   ```\n{BEGIN}\n{END}\n   ```\n",
    f"    {BEGIN}\n    {END}\n",
    f"`{BEGIN}`\n",
]


@pytest.mark.parametrize("body", FENCED)
def test_markers_in_code_are_text(body: str) -> None:
    card = f"---\na: 1\n---\n{body}"
    found = section_set(card, "A **new** section")
    assert found == f"{card}\n{BEGIN}\nA **new** section\n{END}\n"
    assert section_set(found, "A **new** section") == found
    # as another parser of Markdown sees it: the last paragraph, not code
    tokens = MarkdownIt("commonmark").parse(found.split("---\n", 2)[2])
    blocks = [token.content for token in tokens if token.type in ("fence", "code_block")]
    assert not any("new" in content for content in blocks)
    assert any(token.type == "inline" and token.content.startswith("A **new**") for token in tokens) or any(
        token.type == "html_block" and "new" in token.content for token in tokens
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{BEGIN}\n", "must have one line"),
        (f"{END}\n{BEGIN}\n", "must have one line"),
        (f"{BEGIN}\n{BEGIN}\n{END}\n", "must have one line"),
        (f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n", "must have one line"),
        (
            "```python\nx = 1\n",
            "cannot edit this card in place: as far as lipaudit can see, the line '```python' opens a block that is never closed",
        ),
        ("- ```\n  x\n\nfoo\n\n```\n", "the line '```' opens"),
        ("<!--\nno end\n", "the line '<!--' opens"),
        ("text\n<pre>\n", "the line '<pre>' opens"),
        ("~~~~\n~~~\n", "the line '~~~~' opens"),
    ],
)
def test_markers_that_do_not_pair_up_are_refused(body: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        section_set(body)


UNPAIRED = [
    "# x\n- a\n\n- ```sh\n  pip install x\n  ```\n\nMore\n",
    "1. do\n   ```\n   x\n   ```\n",
    "10) ~~~\n    x\n    ~~~\n",
    "> ```\n> x\n> ```\n",
    "> - ```\n>   x\n>   ```\n",
    "- ```\n  never closed, but the item ends\n",
    "> ```\nthe quotation ends\n",
    "<!--\n```\n-->\n# hi\n",
    "<pre>\n```\n</pre>\n# hi\n",
    "<!-- one line --> ```\n",
    "<script>~~~</script>\n",
    "``` not a ` fence\n",
]


@pytest.mark.parametrize("body", UNPAIRED)
def test_fences_without_a_partner_at_the_margin_hide_nothing(body: str) -> None:
    card = f"---\na: 1\n---\n{body}"
    once = section_set(card, "A new section")
    assert once == f"{card}\n{BEGIN}\nA new section\n{END}\n"
    assert section_set(once, "Another") == once.replace("A new section", "Another")
    again = f"{once}\n{body}"  # a block behind the markers, too
    assert section_set(again, "Another") == again.replace("A new section", "Another")
    assert "A new section" in paragraphs(once)


def paragraphs(card: str) -> list[str]:
    """The paragraphs of a card's body at its margin, as another parser of Markdown sees them."""
    tokens = MarkdownIt("commonmark").parse(card.split("---\n", 2)[2])
    return [token.content for token in tokens if token.type == "inline" and token.level == 1]


BLOCKS = st.sampled_from(
    [
        "",
        "",
        "text",
        "```",
        "~~~",
        "- ```",
        "  ```",
        "- item",
        "> ```",
        "> ~~~",
        "> x",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
        "1. ~~~",
        "   ~~~",
    ]
)


@given(st.lists(BLOCKS, max_size=10))
def test_a_section_is_never_part_of_a_block(lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in lines)
    try:
        found = section_set(f"---\na: 1\n---\n{body}", "A new section")
    except UsageError:  # a block that is never closed
        return
    assert "A new section" in paragraphs(found)


LINES = st.sampled_from(
    [
        "# Title",
        "",
        "text",
        "```",
        "~~~",
        "````",
        "---",
        "- item",
        "  ```",
        BEGIN,
        END,
        "    " + BEGIN,
        "<div>",
        "```py",
    ]
)


@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_second_update_changes_nothing_and_what_is_not_ours_stays(lines: list[str], end: str, front: bool) -> None:
    text = (f"---{end}license: mit{end}---{end}" if front else "") + end.join(lines)
    try:
        once = section_set(key_set(text, {"a": 1}), "one\n\ntwo")
    except UsageError:
        return
    assert section_set(key_set(once, {"a": 1}), "one\n\ntwo") == once
    # a section of another length at the same place is the only difference
    assert section_set(once, "three") == re.sub(r"one(\r?\n){2}two", "three", once)
    assert ModelCard(once).data.to_dict()["lipaudit"] == {"a": 1}
    if front and BEGIN not in lines and END not in lines:
        body = text.split(f"---{end}", 2)[2]
        assert once.startswith(f"---{end}license: mit{end}lipaudit:{end}  a: 1{end}---{end}{body}")


@pytest.mark.parametrize(
    "metadata",
    [
        "a: " + "[" * 3000 + "]" * 3000,
        "a: " + "{b: " * 3000 + "}" * 3000,
        "a:\n" + "- " * 3000 + "x",
        "\n".join("  " * i + "k:" for i in range(300)),
        "a: &a [x]\n" + "\n".join(f"b{i}: &b{i} [*{f'b{i - 1}' if i else 'a'}]" for i in range(400)),
    ],
)
def test_metadata_that_nests_without_measure_is_refused(metadata: str) -> None:
    with pytest.raises(UsageError, match="nests more than 100 lists or mappings"):
        key_set(f"---\n{metadata}\n---\nbody\n", 1)


def test_metadata_that_shares_or_holds_itself_is_kept() -> None:
    doubling = "a: &a [x]\n" + "\n".join(f"b{i}: &b{i} [*{(n := f'b{i - 1}' if i else 'a')}, *{n}]" for i in range(40))
    for metadata in (doubling, "a: &a [*a]", "a: " + "[" * 90 + "]" * 90):
        text = f"---\n{metadata}\n---\nbody\n"
        assert key_set(text, 1) == f"---\n{metadata}\nlipaudit: 1\n---\nbody\n"
