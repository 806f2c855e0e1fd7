"""What is wrong with the inputs that a network is given: their names, sizes, values, and the domain around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lipaudit.errors import UsageError
from lipaudit.option_names import spell

Axes = Sequence[int | str]


class UnknownInputError(UsageError):
    """A name that no input of the model has.

    >>> print(UnknownInputError("y", ["x", "mask"]))
    the model has no input named 'y': its inputs are 'x', 'mask'
    """

    def __init__(self, name: str, inputs: Iterable[str]) -> None:
        super().__init__(
            f"the model has no input named {name!r}: its inputs are {', '.join(map(repr, inputs)) or 'none'}"
        )


class NoFreeInputError(UsageError):
    """Every input is held fixed."""

    def __init__(self) -> None:
        super().__init__("every input is held fixed: at least one must be free to have a bound")


class IntegerInputError(UsageError):
    """An input of integers, on which no Lipschitz constant is defined, has no value; ``where`` says what depends on it."""

    def __init__(self, name: str, shape: str, dtype: object, where: str = "") -> None:
        depends = f", and the bound depends on its value ({where})" if where else ""
        super().__init__(
            f"the input {name!r} of shape {shape} holds {str(dtype).removeprefix('torch.')}, on which no Lipschitz constant is defined"
            f"{depends}: hold it at a value with {spell('fix', {name: 'VALUE'})} (a number, a list or a tensor file)"
        )


class CollectedArgumentsError(UsageError):
    """The name under which ``forward`` collects further arguments, in the place of an input's."""

    def __init__(self, name: str, inputs: Sequence[str]) -> None:
        advice = (
            f"its inputs are {', '.join(map(repr, inputs))}" if inputs else "wrap it in a module that names its inputs"
        )
        super().__init__(
            f"the model has no input named {name!r}, under which forward collects further arguments (* or **): {advice}"
        )


class UnnamedInputError(UsageError):
    """Several arguments of ``forward`` could be the input, and none of them is named."""

    def __init__(self, fixed: str, left: Sequence[str]) -> None:
        super().__init__(
            f"{fixed!r} is held fixed, and no argument without a default is left: name the input and its sizes, "
            f"{spell('input_shape', {'NAME': 'SIZES'})}, where NAME is one of {', '.join(left)}"
        )


class PositionalArgumentError(UsageError):
    """An argument of ``forward`` that can only be passed by position, and arguments in front of it that are not given."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"forward takes {name!r} by position only, behind arguments that are left out: give those, too"
        )


class KeywordHookError(UsageError):
    """A hook of the model that reads keyword arguments, which an audit passes by position."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model has a hook that reads keyword arguments, and {name!r} is one: take the hook off, or wrap the model in a module "
            "that calls it with these arguments"
        )


class UnreadInputError(UsageError):
    """An input that ``forward`` takes among its further keywords only, and that nothing reads."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the network does not read the input {name!r}, which forward takes among its further keywords (**) only: check the name"
        )


class AmbiguousSizeError(UsageError):
    """One size for a model with several inputs."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__(
            f"the model has {len(inputs)} inputs ({', '.join(inputs)}): name the one that a size is for, "
            f"{spell('input_shape', {inputs[0]: 'SIZES'})}"
        )


class UnknownSizeError(UsageError):
    """An input whose size nobody has given.

    >>> print(UnknownSizeError("x"))  # doctest: +NORMALIZE_WHITESPACE
    the size of input 'x' is not known: give it with input_shape, for example input_shape=(3, 224, 224) for an image, or
    input_shape={'x': (1, 10)} for any full shape with a batch axis of 1
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the size of input {name!r} is not known: give it with {spell('input_shape')}, for example "
            f"{spell('input_shape', (3, 224, 224))} for an image, or {spell('input_shape', {name or 'NAME': (1, 10)})} for any "
            "full shape with a batch axis of 1"
        )


class OneNumberError(UsageError):
    """One number in the place of the shape of an input that may have any."""

    def __init__(self, size: int, name: str = "") -> None:
        where = f" of input {name!r}" if name else ""
        super().__init__(
            f"one number{where} does not tell the shape of this model's input: give {spell('input_shape', ('C', 'H', 'W'))} for an "
            f"image, for example {spell('input_shape', (3, size, size))}, or the full shape with a batch axis of 1, "
            f"{spell('input_shape', {name or 'NAME': (1, size)})}"
        )


class OpenSizesError(UsageError):
    """An input whose file leaves axes open, and for which no sizes are given; a fixed one may be given as a whole instead."""

    def __init__(self, name: str, shape: str, example: Axes, fixed: bool = False) -> None:
        sizes = spell("input_shape", {name: tuple(example)} if fixed else tuple(example))
        super().__init__(
            f"the {'fixed ' if fixed else ''}input {name!r} has the shape {shape} with open sizes: give them with {sizes}"
            f"{', or the whole tensor as a file' if fixed else ''}"
        )


class AxesError(UsageError):
    """A shape with another number of axes than the model's input."""

    def __init__(self, shape: Sequence[int], default: Sequence[int], name: str = "") -> None:
        where = f" of input {name!r}" if name else ""
        super().__init__(
            f"the shape {_sizes(shape)}{where} has {len(shape)} axes, the model takes {len(default)} (for example {_sizes(default)})"
        )


class BatchAxisError(UsageError):
    """A shape whose first axis is not a batch of one sample."""

    def __init__(self, shape: Sequence[int], name: str = "") -> None:
        def written(sizes: Sequence[int]) -> str:
            return spell("input_shape", {name: tuple(sizes)} if name else tuple(sizes))

        where = f" of input {name!r}" if name else ""
        super().__init__(
            f"the shape {_sizes(shape)}{where} starts with {shape[0]}, and a bound is about one sample: where this is a batch, put 1 in "
            f"its place, {written((1, *shape[1:]))}; where it is none, put a batch axis of 1 in front, {written((1, *shape))}"
        )


class LargeInputError(UsageError):
    """An input that does not fit into memory."""

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        sizes = ", ".join(f"{name}: {_sizes(shape)}" for name, shape in shapes.items())
        super().__init__(
            f"an input of this size does not fit into memory ({sizes}): give a smaller {spell('input_shape')}"
        )


class FixedSizeError(UsageError):
    """A size that differs from the one that the file fixes."""

    def __init__(self, name: str, fixed: str, shape: Sequence[int], axis: int) -> None:
        super().__init__(
            f"the file fixes the input {name!r} at {fixed}, and {_sizes(shape)} differs in axis {axis}: export the model with a symbolic "
            "axis to audit other sizes"
        )


class ExportedSizesError(UsageError):
    """Sizes that an exported program was not exported for."""

    def __init__(self, what: str, guard: str, sizes: str) -> None:
        super().__init__(f"{what} was exported for sizes with {guard[:200]}, and those asked for are {sizes}")


class UnreadableConditionError(UsageError):
    """A condition of an exported program on its sizes that lipaudit cannot read."""

    def __init__(self, what: str, guard: str) -> None:
        super().__init__(
            f"{what} holds at other sizes than the exported ones under a condition that lipaudit cannot read ({guard[:200]}): "
            "export it at the size asked for"
        )


class FixedInputError(UsageError):
    """A value at which an input cannot be held.

    >>> print(FixedInputError("mask", "holds NaN", "no bound exists with it"))
    the fixed input 'mask' holds NaN: no bound exists with it
    """

    def __init__(self, name: str, problem: str, advice: str = "") -> None:
        super().__init__(f"the fixed input {name!r} {problem}{advice and f': {advice}'}")


class ReadFileError(UsageError):
    """A file that an option names, as it was written, and that cannot be what the option takes.

    >>> print(ReadFileError("--around cat.png", "there is no file of this name"))
    --around cat.png: there is no file of this name
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option[:300]}: {problem}")


class CentreError(UsageError):
    """A centre that a ball cannot have.

    >>> print(CentreError("has the shape (1, 2), and the network's input (1, 3)"))
    the centre of the ball has the shape (1, 2), and the network's input (1, 3)
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"the centre of the ball {problem}{advice and f': {advice}'}")


class SeveralInputsError(UsageError):
    """A ball, or images, for a network with several inputs; ``option`` is the one that asks for them."""

    def __init__(self, option: str, model: str, count: int) -> None:
        super().__init__(f"{option} is for networks with one input, and {model} has {count}")


class UnheldInputError(UsageError):
    """An integer input without a value, on which the magnitudes over a domain depend."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a bound over a domain depends on the value of the input {name!r}: hold it with {spell('fix', {name: 'VALUE'})}"
        )


class UnknownNormalisationError(UsageError):
    """Pixels for a model whose normalisation nobody knows."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"the normalisation of pixels of {model} is not known: give {spell('mean')} and {spell('std')}, one number per channel "
            "(0 and 1 if it takes pixels in [0, 1] as they are)"
        )


class IncompleteBallError(UsageError):
    """A ball without its centre or its radius."""

    def __init__(self) -> None:
        super().__init__(
            f"{spell('domain', 'ball')} requires its centre and its radius: give {spell('around', 'IMAGE')} and {spell('radius', 'R')}"
        )


class UnequalChannelsError(UsageError):
    """A mean and a standard deviation of different numbers of channels."""

    def __init__(self, means: int, stds: int) -> None:
        super().__init__(
            f"{spell('mean')} has {means} numbers and {spell('std')} has {stds}: give one per channel, or one for all"
        )


class NormalisationRangeError(UsageError):
    """A normalisation that takes pixels out of the range of floats."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], largest: float) -> None:
        super().__init__(f"{spell('mean', mean)} and {spell('std', std)} take pixels beyond {largest:g}: check them")


class NoPixelsError(UsageError):
    """Pixels for an input that is no image."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        super().__init__(f"input {name} of shape {tuple(shape)} is not an image: it has no pixels")


class ChannelsError(UsageError):
    """A normalisation of another number of channels than an input has."""

    def __init__(self, name: str, shape: Sequence[int], mean: Sequence[float], std: Sequence[float]) -> None:
        means, stds = (",".join(f"{value:g}" for value in values) for values in (mean, std))
        super().__init__(
            f"mean {means} and std {stds} do not fit input {name} of shape {tuple(shape)}: it has {shape[1]} "
            f"channel{'' if shape[1] == 1 else 's'}; give one number per channel, or one for all"
        )


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
