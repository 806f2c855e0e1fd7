"""One rule per operation: how much it can stretch a perturbation. Importing this package registers all of them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from lipaudit.rules import ops, region

for _package in (region, ops):
    for _module in pkgutil.iter_modules(_package.__path__):
        import_module(f"{_package.__name__}.{_module.name}")
