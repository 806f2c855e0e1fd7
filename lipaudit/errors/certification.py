"""What is wrong with the images and labels that are to be certified, and with networks whose answers are no decisions."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.errors import LipauditError, UsageError
from lipaudit.option_names import spell


class NoImagesError(UsageError):
    """A place without any image.

    >>> print(NoImagesError("photos"))
    photos holds no image: name image files, a folder of them, or arrays (.npy, .npz, .pt)
    """

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} holds no image: name image files, a folder of them, or arrays (.npy, .npz, .pt)")


class ImageFileError(UsageError):
    """A file that cannot be read as an image, or as an array of images."""

    def __init__(self, file: object, problem: str) -> None:
        super().__init__(f"{file}: {problem}")


class ImageShapeError(UsageError):
    """Arrays of another shape than the network's input."""

    def __init__(self, what: str, shape: Sequence[int], wanted: Sequence[int]) -> None:
        super().__init__(
            f"{what} has the shape {tuple(shape)}, and the network reads {tuple(wanted[1:])}: give (N, "
            f"{', '.join(map(str, wanted[1:]))}) for N images, or one image without its first axis"
        )


class ImageNumbersError(UsageError):
    """Numbers that no image has: NaN, infinities, pixels outside of [0, 1]."""

    def __init__(self, what: str, problem: str, advice: str) -> None:
        super().__init__(f"{what} {problem}: {advice}")


class MixedImagesError(UsageError):
    """Files of images and of arrays together."""

    def __init__(self, file: object) -> None:
        super().__init__(f"{file} is an array and stands beside other files: give one array file alone, or image files and folders")


class LabelsError(UsageError):
    """Labels that cannot be read or do not fit the images.

    >>> print(LabelsError("labels.csv", "line 3 names no image", "write FILE,LABEL"))
    the labels in labels.csv cannot be used: line 3 names no image; write FILE,LABEL
    """

    def __init__(self, source: object, problem: str, advice: str) -> None:
        super().__init__(f"the labels in {source} cannot be used: {problem}; {advice}")


class NoDecisionError(LipauditError):
    """A network whose output is not one vector of logits, so that nothing is decided."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}: an image is certified for networks that return one vector of logits, of shape (1, K) with K classes, the largest "
            "of which is the decision; wrap the network in a module that returns them"
        )


class OneInputError(UsageError):
    """A network that reads more than one input beside the images."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__(
            f"the network has {len(inputs)} inputs ({', '.join(inputs)}), and images are one: hold the others with "
            f"{spell('fix', {inputs[-1]: 'VALUE'})}"
        )


class UnitsError(UsageError):
    """Images whose pixels cannot be told from the network's input, or the other way round."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}: {advice}")


class OtherRunError(UsageError):
    """A state file of another run."""

    def __init__(self, file: object, what: str) -> None:
        super().__init__(
            f"{file} is the state of another run ({what}): name another file, or remove this one to begin anew"
        )


class StateFileError(UsageError):
    """A file that is no state of a run."""

    def __init__(self, file: object, problem: str) -> None:
        super().__init__(f"{file} is no state of `lipaudit certify` ({problem}): name another file, or remove this one")


class CertifyWorkerError(LipauditError):
    """A worker process ended before its images were done."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process ended before its images were done, as it is where memory runs out: try fewer --workers; with --state FILE "
            "what is done is kept"
        )
