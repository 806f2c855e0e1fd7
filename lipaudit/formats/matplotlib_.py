"""Whether matplotlib (the extra ``plot``) can draw here; everything that draws asks this first."""

from __future__ import annotations

import os
from importlib.util import find_spec

from lipaudit.errors.reason import typed_reason_of


def plot_problem() -> str:
    """Why nothing can be drawn: matplotlib is missing or cannot be imported; empty where it can.

    Matplotlib reads ``MPLBACKEND`` when it is imported and fails where that names no backend. Drawing to a file needs none,
    so that the variable is hidden meanwhile.
    """
    if find_spec("matplotlib") is None:
        return 'matplotlib is not installed (the extra "plot")'
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401
    except Exception as error:  # a broken installation may raise anything
        return f'matplotlib (the extra "plot") cannot be imported: {typed_reason_of(error)}'
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    return ""
