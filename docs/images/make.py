"""Makes the images of the page on the HTML report from the sample models: ``python -m docs.images.make`` from the root of a checkout.

Needs Chromium and matplotlib.
"""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

import lipaudit
from lipaudit.formats.html.page import render
from lipaudit.formats.plot import draw
from tests.formats.browser import Browser, find_browser

_FOLDER = Path(__file__).parent
# the part of the page from the top of one element to the bottom of another, and whether it is shown dark
_SHOTS = {
    "html-head.png": ("header", "#costs", False),
    "html-graph.png": ("#graph", "#layers", True),
}


def main() -> None:
    """Write every image."""
    executable = find_browser()
    if executable is None:
        raise SystemExit("there is no Chromium here")
    report = lipaudit.audit("sample_models/digits_resnet.onnx")
    unet = lipaudit.audit("sample_models/digits_unet.onnx")
    (_FOLDER / "plot.png").write_bytes(draw(unet, "png"))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(render(report), encoding="utf-8")
        browser = Browser(executable, Path(folder) / "profile")
        try:
            for name, (first, last, dark) in _SHOTS.items():
                browser.open(page, width=1000, height=900, dark=dark)
                (_FOLDER / name).write_bytes(_shot(browser, first, last))
        finally:
            browser.close()


def _shot(browser: Browser, first: str, last: str) -> bytes:
    box = "document.querySelector('{}').getBoundingClientRect().{}"
    top, bottom = (browser.evaluate(box.format(*edge)) for edge in ((first, "top"), (last, "bottom")))
    clip = {"x": 0, "y": max(0, top - 24), "width": 1000, "height": bottom - top + 48, "scale": 1}
    taken = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    return base64.b64decode(taken["data"])


if __name__ == "__main__":
    main()
