"""What an exception of another library says, in one line."""

from __future__ import annotations

_LONGEST = 200


def reason_of(error: BaseException) -> str:
    """The first line of an exception, at most 200 characters; its type where it says nothing, or nothing but a key.

    >>> reason_of(ValueError("no header\\nat byte 3")), reason_of(KeyError(1785425525)), reason_of(EOFError())
    ('no header', 'KeyError 1785425525', 'EOFError')
    """
    lines = str(error).strip().splitlines() or [""]
    if isinstance(error, KeyError) or not lines[0]:
        return f"{type(error).__name__} {lines[0]}".strip()[:_LONGEST]
    return lines[0][:_LONGEST]


def typed_reason_of(error: BaseException) -> str:
    """The same behind the exception's type.

    >>> typed_reason_of(ValueError("no header\\nat byte 3")), typed_reason_of(KeyError("x")), typed_reason_of(EOFError())
    ('ValueError: no header', "KeyError: 'x'", 'EOFError')
    """
    kind, lines = type(error).__name__, str(error).strip().splitlines()
    return f"{kind}: {lines[0][:_LONGEST]}" if lines else kind
