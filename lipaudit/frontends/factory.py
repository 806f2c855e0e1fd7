"""``package.module:factory``: a model built by the user's own code, the only code that lipaudit runs on request."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import nn

from lipaudit.errors import LipauditError, ModelLoadError, ModelNotFoundError


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    sys.path.insert(0, "")
    try:
        yield
    finally:
        with suppress(ValueError):  # the code may have removed it
            sys.path.remove("")


@contextmanager
def _settings_kept() -> Iterator[None]:
    """The working directory and torch's defaults are afterwards what they were, whatever the code has set."""
    folder, dtype, device = os.getcwd(), torch.get_default_dtype(), torch.get_default_device()
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        os.chdir(folder)
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)


def build_from_factory(name: str) -> nn.Module:
    """Import ``package.module`` and return the module that ``factory`` is or returns when called without arguments.

    The current directory is importable meanwhile, and torch's generator starts from seed 0. The current directory and torch's
    default dtype and device are restored.
    Raises :class:`ModelNotFoundError` where the import path or the attribute does not exist and :class:`ModelLoadError`
    where the code fails or returns something else.
    """
    module_name, _, attribute = name.partition(":")
    with _current_directory_importable(), _settings_kept(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            value: object = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
                raise ModelNotFoundError(
                    f"there is no Python module {error.name!r} for {name}: run in its folder or set PYTHONPATH"
                ) from error
            raise ModelLoadError(f"importing {module_name} failed: {error}") from error
        except Exception as error:
            raise ModelLoadError(f"importing {module_name} failed: {type(error).__name__}: {error}") from error
        for part in attribute.split("."):
            if not hasattr(value, part):
                raise ModelNotFoundError(f"module {module_name} has no attribute {attribute!r}")
            value = getattr(value, part)
        if not isinstance(value, nn.Module):
            if not callable(value):
                raise ModelLoadError(
                    f"{name} is a {type(value).__name__}, neither a torch.nn.Module nor a function that returns one"
                )
            torch.manual_seed(0)
            try:
                value = value()
            except LipauditError:
                raise
            except Exception as error:
                raise ModelLoadError(f"{name}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(value, nn.Module):
        raise ModelLoadError(f"{name}() returned a {type(value).__name__}; it must return a torch.nn.Module")
    return value
