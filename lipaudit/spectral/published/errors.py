"""What a published method is not defined for."""

from __future__ import annotations

from lipaudit.errors import MethodError


class PaddingError(MethodError):
    """A method that is not defined for the padding of a convolution.

    >>> print(PaddingError("sedghi2019", "reflect"))
    sedghi2019 is not defined for reflect padding; choose ryu2019, farnia2019, gouk2021 or gram
    """

    def __init__(self, method: str, mode: str) -> None:
        super().__init__(f"{method} is not defined for {mode} padding; choose ryu2019, farnia2019, gouk2021 or gram")


class TooFewSamplesError(MethodError):
    """Fewer samples per axis than a kernel of so many taps needs for a bound."""

    def __init__(self, samples: int, taps: int) -> None:
        super().__init__(
            f"{samples} samples per axis give no bound for a kernel of {taps} taps: take at least {2 * (taps // 2) + 1}"
        )


class TooManyProductsError(MethodError):
    """More Gram products of a kernel with itself than memory holds."""

    def __init__(self, asked: int, most: int, numbers: int, shape: tuple[int, ...]) -> None:
        super().__init__(
            f"delattre2024 with {asked} iterations needs more than {numbers} numbers for a kernel of shape {shape}: take at most {most}"
        )
