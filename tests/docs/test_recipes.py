"""The recipes of the documentation do what they say; and a recipe that does not is found.

A page of :data:`tests.docs.recipes.RECIPES` is carried out whole. Its mutants are the
page with one text in the place of another, and what its own test then says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.recipes import RECIPES, RecipeError, follow
from tests.places import DOCS

SLOW_RECIPES = ("adding_an_operation.md", "release.md")
MUTANTS: tuple[tuple[str, str, str, str], ...] = (  # page, text, other text, message
    ("adding_a_network_bound.md", "weight.double().abs()", "weight.double()", "absolute values is below a stretch"),
    (
        "adding_a_norm_method.md",
        "entries.sum(1).amax(1)",
        "entries.sum(1).amin(1)",
        "AssertionError: schur1911: Geometry",
    ),
    (
        "adding_an_operation.md",
        "SINC.interval(always(Interval(-0.2172337, 1.0)))",
        "SINC.interval(always(Interval(0.0, 1.0)))",
        "test_radii_hold",
    ),
    (
        "adding_a_format.md",
        "return printable(text.replace(",
        "return str(text.replace(",
        "lets_a_control_character_through",
    ),
    ("release.md", "--max-growth 1.05", "--max-growth 1.5", "ended with 1"),
)

_SMALL = """
```python
# lipaudit/small.py
LIMIT = 1
```

```python
# lipaudit/small.py, at the end
def above(x: int) -> bool:
    return x > LIMIT
```

```diff
+++ lipaudit/small.py
-LIMIT = 1
+LIMIT = 3
```

```python
from lipaudit.small import above
```

```python
print("2:", above(2))
```

```text
2: False
```

```sh
python -c 'import lipaudit.small as s; print(s.__file__, s.above(4))' | sed 's/.*lipaudit/lipaudit/'
python -c 'raise SystemExit(3)'  # ends with 3
```

```text
lipaudit/small.py True
```
"""


@pytest.mark.parametrize("page", RECIPES)
def test_a_recipe_does_what_it_says(page: str, tmp_path: Path) -> None:
    follow(DOCS / page, tmp_path)


@pytest.mark.parametrize(
    ("page", "old", "new", "message"),
    [pytest.param(*m, marks=[pytest.mark.long] if m[0] in SLOW_RECIPES else []) for m in MUTANTS],
)
def test_the_test_of_a_recipe_can_fail(page: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        follow(DOCS / page, tmp_path, old, new)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    page = tmp_path / "small.md"
    page.write_text(_SMALL, encoding="utf-8")
    return page


def test_files_are_made_changed_and_used(small: Path, tmp_path: Path) -> None:
    follow(small, tmp_path / "checkout")
    made = (tmp_path / "checkout" / "lipaudit" / "small.py").read_text(encoding="utf-8")
    assert made == "LIMIT = 3\n\n\ndef above(x: int) -> bool:\n    return x > LIMIT\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2: False", "2: True", "this was printed:\n2: False"),
        ("True\n", "False\n", r"this was printed:\nlipaudit/small\.py True"),
        ("# lipaudit/small.py\n", "# lipaudit/api.py\n", r"lipaudit/api\.py is there already"),
        ("-LIMIT = 1", "-LIMIT = 2", r"stand 0 times in lipaudit/small\.py"),
        ("import above", "import below", "ended with 1"),
        ("# ends with 3", "", "ended with 3"),
        ("no such text", "", "0 times, not once"),
    ],
)
def test_a_step_that_fails_is_found(old: str, new: str, message: str, small: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        follow(small, tmp_path / "checkout", old, new)


def test_a_page_without_a_program_is_no_recipe(tmp_path: Path) -> None:
    page = tmp_path / "empty.md"
    page.write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="runs nothing"):
        follow(page, tmp_path / "checkout")
