"""Figures as text, rounded so that what is printed still holds: upper bounds up, lower bounds down.

``"%.4g" % 4.51441`` is ``4.514``, which is below the bound and therefore no bound. Here a float is taken as the exact
decimal number that it is and rounded toward the safe side, so that for every float x

    float(lower_text(x)) <= x <= float(upper_text(x))     (as exact decimal numbers).

Constants that do not fit a float are shown through their decimal logarithm, as ``10^412.31``. An estimate is no bound: it is
rounded to the nearest and marked with ``~``.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

DIGITS = 4
MOST = 5  # names and layers shown before "and n more"
_LEAST_EXCESS = Decimal("1e-7")  # above 1, that is shown
# More digits than any float needs (767), so that no step but the wanted rounding ever rounds.
_NOISE = Decimal("1e-7")  # percent
_EXACT = decimal.Context(prec=1100, Emin=-999_999, Emax=999_999)


def upper_text(value: float, digits: int = DIGITS) -> str:
    """An upper bound (plain units) rounded up to ``digits`` significant digits; slightly above 1 its excess, to one digit.

    >>> upper_text(4.51441), upper_text(123456.0), upper_text(0.25)
    ('4.515', '1.235e+05', '0.25')
    >>> upper_text(1.0000019), upper_text(1 + 1e-15)
    ('1.000002', '1.0000001')
    """
    if is_slightly_above_one(value, digits):
        excess = max(Decimal(value) - 1, _LEAST_EXCESS)
        return f"{1 + excess.quantize(Decimal((0, (1,), excess.adjusted())), ROUND_CEILING, _EXACT):f}"
    return _significant(Decimal(value), digits, ROUND_CEILING)


def is_slightly_above_one(value: float, digits: int = DIGITS) -> bool:
    """Whether ``digits`` significant digits, rounded up, hide how little an upper bound is above 1.

    >>> is_slightly_above_one(1.0000019), is_slightly_above_one(1.0), is_slightly_above_one(1.002)
    (True, False, False)
    """
    return 1 < value < 1 + 10.0 ** (1 - digits)


def lower_text(value: float, digits: int = DIGITS) -> str:
    """A lower bound (plain units) rounded down to ``digits`` significant digits.

    >>> lower_text(4.51441), lower_text(199999.0)
    ('4.514', '1.999e+05')
    """
    return _significant(Decimal(value), digits, ROUND_FLOOR)


def log10_upper_text(value: float, digits: int = DIGITS) -> str:
    """The decimal logarithm of an upper bound, rounded up: four significant digits, but two to four decimals.

    More ``digits`` are as many more decimals.

    >>> log10_upper_text(10.3908), log10_upper_text(0.654198), log10_upper_text(-3.14159)
    ('10.40', '0.6542', '-3.141')
    """
    return _decimals(Decimal(value), ROUND_CEILING, digits)


def log10_lower_text(value: float, digits: int = DIGITS) -> str:
    """The decimal logarithm of a lower bound, rounded down.

    >>> log10_lower_text(10.3908), log10_lower_text(-3.14159)
    ('10.39', '-3.142')
    """
    return _decimals(Decimal(value), ROUND_FLOOR, digits)


def upper_bound_text(value: float | None, log10: float | None, digits: int = DIGITS) -> str:
    """An upper bound from its plain value where there is one, else from its logarithm, else an empty text.

    >>> upper_bound_text(2.0, 0.30103), upper_bound_text(None, 412.305), upper_bound_text(None, None)
    ('2', '10^412.31', '')
    """
    if value is not None:
        return upper_text(value, digits)
    return "" if log10 is None else f"10^{log10_upper_text(log10, digits)}"


def lower_bound_text(value: float | None, log10: float | None, digits: int = DIGITS) -> str:
    """A lower bound from its plain value where there is one, else from its logarithm, else an empty text.

    >>> lower_bound_text(1.99999, 0.301), lower_bound_text(None, 412.305)
    ('1.999', '10^412.30')
    """
    if value is not None:
        return lower_text(value, digits)
    return "" if log10 is None else f"10^{log10_lower_text(log10, digits)}"


def estimate_text(value: float | None, log10: float | None, digits: int = DIGITS) -> str:
    """An estimate from its plain value where there is one, else from its logarithm, else an empty text.

    >>> estimate_text(4.51441, 0.6546), estimate_text(None, 412.305), estimate_text(None, None)
    ('~4.514', '~10^412.31', '')
    """
    if value is not None:
        return "~" + _significant(Decimal(value), digits, ROUND_HALF_EVEN)
    return "" if log10 is None else f"~10^{log10_estimate_text(log10, digits)}"


def log10_estimate_text(value: float, digits: int = DIGITS) -> str:
    """The decimal logarithm of an estimate, rounded to the nearest.

    >>> log10_estimate_text(10.3968), log10_estimate_text(0.654149)
    ('10.40', '0.6541')
    """
    return _decimals(Decimal(value), ROUND_HALF_EVEN, digits)


def quotient_text(value: float) -> str:
    """How many times an upper bound is above a lower one, rounded up to four significant digits.

    >>> quotient_text(1.0000019), quotient_text(2.0)
    ('1.001', '2')
    """
    return _significant(Decimal(value), DIGITS, ROUND_CEILING)


def ratio_text(log10: float) -> str:
    """The same from its logarithm.

    >>> ratio_text(0.0), ratio_text(2.8139), ratio_text(16.21)
    ('1', '651.5', '10^16.22')
    """
    if log10 >= DIGITS:
        return f"10^{log10_upper_text(log10)}"
    return quotient_text(10**log10 * (1 + 1e-12) if log10 else 1.0)


def reciprocal_text(upper: float | None, log10: float | None) -> str:
    """A number that is at most 1/upper: how far the input may move while the output moves by at most 1.

    >>> reciprocal_text(3.0, None), reciprocal_text(None, 412.305), reciprocal_text(0.0, None)
    ('0.3333', '10^-412.31', '')
    """
    if upper is not None:
        if upper == 0:
            return ""
        towards_zero = decimal.Context(prec=30, rounding=ROUND_FLOOR)
        return _significant(towards_zero.divide(Decimal(1), Decimal(upper)), DIGITS, ROUND_FLOOR)
    return "" if log10 is None else f"10^{log10_lower_text(-log10)}"


def share_text(share: float) -> str:
    """A share of the whole in percent, to the nearest tenth (a share is no bound); what differs by rounding errors reads the same.

    >>> share_text(0.1234), share_text(-0.00001), share_text(0.0835 - 1e-12), share_text(0.0835 + 1e-12)
    ('12.3%', '0.0%', '8.4%', '8.4%')
    """
    percent = (100 * Decimal(share)).quantize(_NOISE, ROUND_HALF_EVEN, _EXACT)
    percent = percent.quantize(Decimal("0.1"), ROUND_HALF_EVEN, _EXACT)
    return f"{percent if percent else abs(percent)}%"


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as it is typed on the command line.

    >>> shape_text((64, 3, 7, 7)), shape_text(())
    ('64x3x7x7', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def names_text(names: Sequence[str]) -> str:
    """The first few names, and how many more there are.

    >>> names_text("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    shown = ", ".join(names[:MOST])
    return shown + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def count_text(count: int, what: str) -> str:
    """A number of things.

    >>> count_text(1, "row"), count_text(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _significant(x: Decimal, digits: int, rounding: str) -> str:
    if not x.is_finite():
        raise ValueError(f"{x} is not a figure that can be shown")
    if x == 0:
        return "0"
    x = x.quantize(Decimal((0, (1,), x.adjusted() - digits + 1)), rounding, _EXACT)
    if x == 0:
        return "0"
    exponent = x.adjusted()
    if -4 <= exponent < digits:
        return _strip(f"{x:f}")
    mantissa = _strip(f"{x.scaleb(-exponent, _EXACT):f}")
    return f"{mantissa}e{exponent:+03d}"


def _decimals(x: Decimal, rounding: str, digits: int = DIGITS) -> str:
    if not x.is_finite():
        raise ValueError(f"{x} is not a logarithm that can be shown")
    places = min(4, max(2, DIGITS - 1 - (x.adjusted() if x else 0))) if abs(x) < 100_000 else 0
    places += digits - DIGITS
    x = x.quantize(Decimal((0, (1,), -places)), rounding, _EXACT)
    return f"{x if x else abs(x):f}"


def _strip(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
