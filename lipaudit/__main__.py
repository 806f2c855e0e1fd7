"""``python -m lipaudit`` is the command ``lipaudit``."""

from __future__ import annotations

import sys

from lipaudit.cli import main

if __name__ == "__main__":
    sys.exit(main())
