"""What is wrong with a request to certify decisions: networks that make none, state files, processes."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.errors import LipauditError, UsageError
from lipaudit.option_names import spell


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
