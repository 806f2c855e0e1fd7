"""The page in a real browser: nothing is loaded, nothing overlaps, everything can be done with the keyboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lipaudit.formats.html.page import render
from lipaudit.records.report import AuditReport
from tests.formats.browser import Browser, find_browser
from tests.formats.html.test_page import HOSTILE, chain, hostile, saved
from tests.records import (
    fakes,
)

EXECUTABLE = find_browser()
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="needs Chromium")

# values that are shown alike, or whose texts sort otherwise than they do
FACTORS = (9.9, 4.75111, 10.2, 4.75112, 1e-5, 200000.0, 2.0)


def sortable() -> AuditReport:
    rows = (
        *(
            fakes.layer(f"row{i}", factor, inputs=(f"row{i - 1}" if i else "x",), share=1 / 7)
            for i, factor in enumerate(FACTORS)
        ),
        fakes.missing("gate", "unbounded", "mul", "a product"),
    )
    return fakes.report(rows, status="unbounded")


def wide() -> AuditReport:
    """Layers that are read all at once: many lanes; and long names."""
    rows = [fakes.layer(f"layer{i}." + "x" * (5 * i), 1.5 + i, inputs=("input",)) for i in range(60)]
    return fakes.report((*rows, fakes.layer("end", 2.0, inputs=tuple(row.name for row in rows))))


PAGES: dict[str, Callable[[], AuditReport]] = {
    "sortable": sortable,
    "resnet": lambda: saved("digits_resnet"),
    "vit": lambda: saved("digits_vit"),
    "unsupported": fakes.unsupported,
    "estimate": fakes.estimate,
    "wide": wide,
    "hostile": lambda: hostile(" ".join(HOSTILE)),
    "unbroken": lambda: hostile("abcdefghij" * 30),
    "long": lambda: fakes.report(chain(510)),
    "empty": lambda: fakes.report(()),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, make in PAGES.items():
        (folder / f"{name}.html").write_text(render(make()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert EXECUTABLE is not None
    started = Browser(EXECUTABLE, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


# what sticks out of the window, and which headings, parts and labels lie on each other
GEOMETRY = """(() => {
  const found = [];
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) found.push("the page scrolls sideways: " + page.scrollWidth);
  for (const e of document.querySelectorAll("main *")) {
    if (e.closest(".box") && !e.matches(".box") || e.closest(".unseen") || e.parentElement.closest(".name")) continue;
    const r = e.getBoundingClientRect();
    if (r.width && (r.left < -0.5 || r.right > page.clientWidth + 0.5)) found.push("sticks out: " + e.outerHTML.slice(0, 80));
  }
  const apart = (selector, inset) => {
    const boxes = Array.from(document.querySelectorAll(selector)).map((e) => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width);
    boxes.sort(([, a], [, b]) => a.top - b.top);
    for (let i = 0; i < boxes.length; i++)
      for (let j = i + 1; j < boxes.length && boxes[j][1].top < boxes[i][1].bottom - inset; j++) {
        const [a, b] = [boxes[i][1], boxes[j][1]];
        if (a.left < b.right - inset && b.left < a.right - inset)
          found.push("overlap: " + boxes[i][0].outerHTML.slice(0, 80) + " and " + boxes[j][0].outerHTML.slice(0, 80));
      }
  };
  apart("header > *, nav, section", 0.5);
  apart(".answer dt, .answer dd, .steps dt, .steps dd", 0.5);
  apart("section > *", 0.5);
  apart(".shares .name, .shares .share, .shares .bar", 0.5);
  apart(".network text, .network .mark, .network .join", 1);
  apart("ol.scale li, .frame > svg, .ends span", 3);
  apart("#layer-table thead th", 0.5);
  const drawing = document.querySelector("svg.network");
  if (drawing) {
    const frame = drawing.getBoundingClientRect();
    for (const t of drawing.querySelectorAll("text"))
      if (t.getBoundingClientRect().right > frame.right + 0.5) found.push("cut off: " + t.textContent);
  }
  return found;
})()"""

# the contrast of every visible text with what is behind it
CONTRAST = """(() => {
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    throw new Error("no background");
  };
  const found = {};
  for (const e of document.querySelectorAll("body *")) {
    const own = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("script, style, title, .unseen") || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const ink = luminance(parse(e.closest("svg") ? style.fill : style.color).slice(0, 3));
    const paper = luminance(ground(e));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const key = e.tagName + "." + (e.getAttribute("class") || "");
    found[key] = Math.min(found[key] || 99, ratio);
  }
  return found;
})()"""


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_loaded_and_nothing_fails_or_overlaps(browser: Browser, pages: dict[str, Path], name: str) -> None:
    for width in (320, 400, 900, 1400):
        browser.open(pages[name], width)
        assert browser.evaluate(GEOMETRY) == []
        assert browser.problems == []
        assert browser.requests == [pages[name].as_uri()]


@pytest.mark.parametrize("name", ["sortable", "estimate", "unsupported"])
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out(browser: Browser, pages: dict[str, Path], name: str, dark: bool) -> None:
    browser.open(pages[name], dark=dark)
    contrasts = browser.evaluate(CONTRAST)
    assert len(contrasts) > 20
    assert {key: ratio for key, ratio in contrasts.items() if ratio < 4.5} == {}
    ground = browser.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 300) is dark


ORDER = "Array.from(document.querySelectorAll('#layer-table tbody tr'), (row) => row.id)"
SORTS = "Array.from(document.querySelectorAll('thead [aria-sort]'), (h) => h.getAttribute('aria-sort'))"


def test_the_table_is_sorted_by_the_keyboard_and_by_exact_values(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["sortable"])
    heads = browser.evaluate("Array.from(document.querySelectorAll('thead button'), (b) => b.textContent)")
    column = heads.index("upper")
    browser.evaluate(f"document.querySelectorAll('thead button')[{column - 1}].focus()")
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.textContent") == "upper"
    ascending = [*sorted(range(len(FACTORS)), key=FACTORS.__getitem__), len(FACTORS)]  # the unbounded row is above all
    browser.press("Enter", 13, "\r")
    assert browser.evaluate(ORDER) == [f"row-{i + 1}" for i in reversed(ascending)]
    assert browser.evaluate(SORTS)[column] == "descending"
    browser.press(" ", 32, " ")
    assert browser.evaluate(ORDER) == [f"row-{i + 1}" for i in ascending]
    assert browser.evaluate(SORTS) == ["ascending" if i == column else "none" for i in range(len(heads))]
    browser.evaluate("document.querySelector('thead button').click()")
    assert browser.evaluate(ORDER) == [f"row-{i + 1}" for i in range(len(FACTORS) + 1)]


SHOWN = "Array.from(document.querySelectorAll('#layer-table tbody tr:not([hidden])'), (row) => row.id)"


def test_the_filter_leaves_rows_with_all_its_words(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["sortable"])
    browser.evaluate("document.getElementById('filter').focus()")
    browser.call("Input.insertText", text="UNBOUNDED gate")
    assert browser.evaluate(SHOWN) == ["row-8"]
    assert browser.evaluate("document.getElementById('count').value") == "1 of 8 rows"
    browser.evaluate(
        "document.querySelector('svg.network a[href=\"#row-3\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.evaluate(SHOWN) == [f"row-{i}" for i in range(1, 9)]


# whether the row that a link leads to is inside its box, below the head of the table, and inside the window
IN_SIGHT = """(() => {
  const [row, box, head] = ["tr:target", "#layers .box", "#layers thead"].map((s) => document.querySelector(s).getBoundingClientRect());
  return row.top >= head.bottom - 1 && row.bottom <= Math.min(box.bottom, innerHeight) + 1 && row.top >= 0;
})()"""


def test_the_graph_is_read_with_the_arrow_keys(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["sortable"])
    stops = browser.evaluate(
        "Array.from(document.querySelectorAll('svg.network a')).filter((a) => a.tabIndex === 0).length"
    )
    assert stops == 1
    browser.evaluate("document.querySelector('svg.network a').focus()")
    readout = "document.getElementById('readout').textContent"
    assert browser.evaluate(readout).startswith("row0 (conv2d); at most 9.901, certified")
    browser.press("ArrowDown", 40)
    assert browser.evaluate(readout).startswith("row1 (conv2d); at most 4.752, certified")
    assert browser.evaluate("document.querySelectorAll('.lanes .near').length") > 0
    browser.press("End", 35)
    assert browser.evaluate(readout).startswith("gate (mul); UNBOUNDED; a product")
    browser.press("Enter", 13, "\r")
    assert browser.evaluate("location.hash") == "#row-8"
    assert browser.evaluate(IN_SIGHT) is True


def test_a_row_far_below_is_shown_when_its_link_is_followed(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["long"])
    browser.evaluate(
        "document.querySelector('.frame a[href=\"#row-480\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.evaluate(IN_SIGHT) is True


def test_the_report_is_saved_as_it_was(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    browser.open(pages["resnet"])
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.evaluate("document.getElementById('download').click()")
    file = tmp_path / "lipaudit-report.json"
    end = time.monotonic() + 20
    while not (file.exists() and file.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    assert AuditReport.from_json(file.read_bytes()) == saved("digits_resnet")
    assert browser.problems == []


def test_a_name_with_its_own_script_runs_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    report = sortable()
    name = "</title></script><script>window.broken = true</script><img src=x onerror='window.broken = true'>"
    page = render(replace(report, model=replace(report.model, spec=name)))
    spoilt = pages["sortable"].with_name("spoilt.html")
    spoilt.write_text(page.replace("<main>", "<main><script>window.broken = true</script>"), encoding="utf-8")
    browser.open(spoilt)
    assert browser.evaluate("window.broken === undefined")
    assert any(
        "Content Security Policy" in problem for problem in browser.problems
    )  # what stands in the page itself is refused
    spoilt.write_text(page, encoding="utf-8")
    browser.open(spoilt)
    assert browser.evaluate("window.broken === undefined")
    assert browser.problems == []


@pytest.mark.parametrize("name", ["resnet", "vit"])
def test_the_print_has_everything_on_a_sheet(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], 720)
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    try:
        wide = "Array.from(document.querySelectorAll('table, svg.network, figure'), (e) => e.getBoundingClientRect().width)"
        assert max(browser.evaluate(wide)) <= 720
        hidden = "Array.from(document.querySelectorAll('nav, .controls, .readout'), (e) => e.getClientRects().length)"
        assert set(browser.evaluate(hidden)) == {0}
        cut = "Array.from(document.querySelectorAll('.box'), (e) => e.scrollHeight - e.clientHeight)"
        assert max(browser.evaluate(cut)) <= 0
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_what_scrolls_sideways_has_a_shadow(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["resnet"], 400)
    box = "document.querySelector('#layers .box')"
    assert browser.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    layers = browser.evaluate(f"getComputedStyle({box}).backgroundAttachment")
    assert layers == "local, local, scroll, scroll"
    assert browser.evaluate("document.querySelector('#costs .box').scrollWidth <= 400")
