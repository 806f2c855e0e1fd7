"""What the code of a network may do to the audit that runs it: end Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lipaudit.errors import ModelLoadError


@contextmanager
def exit_is_an_error(model: object) -> Iterator[None]:
    """Let ``sys.exit`` in the code of a model, given by name or itself, be an error of that model.

    Without it a gate would pass, or fail, with no report, and the models behind it would never be audited. Raises
    :class:`~lipaudit.errors.ModelLoadError`.
    """
    try:
        yield
    except SystemExit as error:
        name = model if isinstance(model, str) else f"{type(model).__module__}.{type(model).__qualname__}"
        code = "" if error.code is None else repr(error.code)[:200]
        raise ModelLoadError(
            f"the code of {name} ended Python with sys.exit({code}): let it return, or raise an error"
        ) from error
