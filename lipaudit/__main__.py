"""``python -m lipaudit`` is the command ``lipaudit``."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

from lipaudit.cli import main

# Container objects between two passes of the garbage collector: the imports of a network's frameworks make a million of them.
_OBJECTS = 50_000


def run() -> NoReturn:
    """The process of the command, from its arguments to its exit code."""
    gc.set_threshold(_OBJECTS, 20, 20)
    code = main()
    gc.freeze()  # the end of the process need not look through everything once more
    sys.exit(code)


if __name__ == "__main__":
    run()
