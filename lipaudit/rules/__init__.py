"""Every operation: how much it can stretch a perturbation, and what else is known of it. Importing this package registers all of them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from lipaudit.rules import ops

for _module in pkgutil.iter_modules(ops.__path__):
    import_module(f"{ops.__name__}.{_module.name}")
