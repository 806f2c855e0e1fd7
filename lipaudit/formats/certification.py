"""A certification as text: shares at every radius, the images that matter most, and what the columns mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from lipaudit.escaping import escape_markdown, printable
from lipaudit.formats.grid import Column, Grid
from lipaudit.formats.options import DEFAULT, Options
from lipaudit.records.certification import Certification, ImageRecord, RadiusRecord
from lipaudit.text.answer import short_title
from lipaudit.text.lines import wrapped
from lipaudit.text.numbers import count_text, lower_text, upper_text

_FEWEST_ROWS = 3  # images below the shares, where not every row is asked for
_AROUND_IMAGES = 4  # lines: how many there are, the heading with its rule, and a blank one
_ROUNDING = 1e-9  # of a share times 1000
_STEPS = 255  # of a pixel of 8 bits


def table(found: Certification, options: Options = DEFAULT) -> str:
    """The answer, the shares at every radius, then images: the least certain that the screen has room for, or every one in its order."""
    layout = options.layout
    if layout.quiet:
        return _one_line(found)
    whole = layout.every_row or layout.height is None
    lines = [*wrapped(short_title(found.model), layout.width), ""]
    lines += [*(f"  {label:<22}{text}" for label, text in _answer(found)), ""]
    lines += [*_shares(found.radii).terminal(layout.width).splitlines(), ""]
    said = sentences(found) if whole else (_meaning(found), *_doubts(found))
    below = [line for sentence in said for line in wrapped(sentence, layout.width, indent="  ")]
    room = (layout.height or 0) - len(lines) - len(below) - _AROUND_IMAGES
    images = found.images if whole else least_certain(found.images)[: layout.top or max(_FEWEST_ROWS, room)]
    if len(images) < len(found.images):
        lines += [f"{len(images)} of {len(found.images)} images, the least certain first (--all: every image)"]
    lines += [*image_grid(images).terminal(layout.width).splitlines(), "", *below]
    return "\n".join(lines)


def _one_line(found: Certification) -> str:
    """How many images are right, and within which radii decisions are certified, for ``--quiet``."""
    right = "" if found.accuracy is None else f", {percent(found.accuracy)} decided as labelled"
    radius = spread([image.radius for image in found.images], upwards=False)
    return printable(f"{found.model.spec}: {count_text(len(found.images), 'image')}{right}; certified radius {radius}")


def markdown(found: Certification, _options: Options = DEFAULT) -> str:
    """The same content in GitHub-flavoured Markdown, with every image."""
    lines = [f"## Certified decisions of {escape_markdown(short_title(found.model))}", ""]
    lines += [f"- {label}: {escape_markdown(text)}" for label, text in _answer(found)]
    lines += ["", "### Shares", "", _shares(found.radii).markdown(), "", "### Images", ""]
    lines += [image_grid(found.images).markdown(), ""]
    return "\n".join([*lines, *(f"- {escape_markdown(sentence)}" for sentence in sentences(found))])


_RAW = (
    *("name", "label", "decision", "margin", "runner_up", "allowance", "radius", "global_radius", "local_radius"),
    *("limited_by", "constant", "attack_radius", "attack_decision", "jacobian_norm"),
)


def tsv(found: Certification, _options: Options = DEFAULT) -> str:
    """One row per image with raw numbers, tab-separated."""
    return _raw(found).tsv()


def csv(found: Certification, _options: Options = DEFAULT) -> str:
    """The same table as comma-separated values."""
    return _raw(found).csv()


def _raw(found: Certification) -> Grid:
    return Grid.of(_RAW, [[getattr(image, name) for name in _RAW] for image in found.images])


def least_certain(images: Sequence[ImageRecord]) -> list[ImageRecord]:
    """The images with the smallest certified radius first; of equal ones the one that is attacked most easily."""
    return sorted(images, key=lambda image: (image.radius, image.attack_radius or 0.0, image.name))


def answer_lines(found: Certification) -> tuple[tuple[str, str], ...]:
    """What is known of all images, as labels and texts."""
    return tuple(_answer(found))


def _answer(found: Certification) -> Iterable[tuple[str, str]]:
    right = "" if found.accuracy is None else f", {percent(found.accuracy)} decided as labelled"
    yield "Images", f"{len(found.images)}{right}"
    yield "Certified radius", spread([image.radius for image in found.images], upwards=False)
    if found.settings.attack_steps:
        attacked = [image.attack_radius for image in found.images if image.attack_radius is not None]
        yield "Changed by attack at", spread(attacked, upwards=True) if attacked else "no decision was changed"
    upper = found.constant.upper_bound
    bound = (
        "none over all inputs" if upper is None else f"≤ {upper_text(upper)} over all inputs, {found.constant.rigor}"
    )
    yield "Lipschitz bound (l2)", bound


def spread(values: Sequence[float], upwards: bool) -> str:
    """Median, the mean of the two middle numbers where there are as many on both sides, and ends of numbers."""
    text = upper_text if upwards else lower_text
    if len(values) == 1:
        return text(values[0])
    return f"{text(statistics.median(values))} median, from {text(min(values))} to {text(max(values))}"


def radius_text(radius: float) -> str:
    """A radius, as steps of a pixel of 8 bits where it is a whole number of them.

    >>> radius_text(36 / 255), radius_text(0.5), radius_text(1.0)
    ('36/255', '0.5', '1')
    """
    steps = radius * _STEPS
    whole = round(steps)
    if 0 < whole < _STEPS and radius == whole / _STEPS and radius != round(radius, 3):
        return f"{whole}/{_STEPS}"
    return f"{radius:g}"


def percent(share: float) -> str:
    """A share in percent with one decimal, rounded down: at least as much holds.

    >>> percent(2 / 3), percent(1.0)
    ('66.6%', '100.0%')
    """
    return f"{math.floor(share * 1000 + _ROUNDING) / 10:.1f}%"


def percent_at_most(share: float) -> str:
    """The same rounded up: an attack leaves at most as much.

    >>> percent_at_most(2 / 3), percent_at_most(0.0)
    ('66.7%', '0.0%')
    """
    return f"{math.ceil(share * 1000 - _ROUNDING) / 10:.1f}%"


SHARE_HEAD = ("radius", "certified accuracy", "accuracy under attack", "certified decisions")


def share_cells(row: RadiusRecord) -> tuple[str, ...]:
    """The texts of one radius."""
    certified = "" if row.certified_accuracy is None else percent(row.certified_accuracy)
    attacked = "" if row.attacked_accuracy is None else percent_at_most(row.attacked_accuracy)
    return radius_text(row.radius), certified, attacked, percent(row.certified)


def _shares(rows: Sequence[RadiusRecord]) -> Grid:
    columns = tuple(Column(head, numeric=True) for head in SHARE_HEAD)
    return Grid(columns, tuple(map(share_cells, rows))).without_empty_columns()


IMAGE_HEAD = ("image", "label", "decision", "margin", "certified", "local", "attacked", "to", "Jacobian")


def image_cells(image: ImageRecord) -> tuple[str | None, ...]:
    """The texts of one image."""
    return (
        image.name,
        _class(image.label),
        _class(image.decision) or "none",
        None if image.margin is None else lower_text(image.margin),
        lower_text(image.radius) if image.radius else "0",
        None if image.local_radius is None else lower_text(image.local_radius) if image.local_radius else "0",
        None if image.attack_radius is None else upper_text(image.attack_radius),
        _class(image.attack_decision),
        None if image.jacobian_norm is None else f"{image.jacobian_norm:.4g}",
    )


def image_grid(images: Sequence[ImageRecord]) -> Grid:
    """One row per image."""
    columns = (
        Column("image", cut="middle", floor=12, repeated=True),
        *(Column(head, numeric=True) for head in IMAGE_HEAD[1:]),
    )
    return Grid(columns, tuple(map(image_cells, images))).without_empty_columns()


def _class(number: int | None) -> str | None:
    return None if number is None else str(number)


def sentences(found: Certification) -> tuple[str, ...]:
    """What the figures mean, and what they rest on."""
    return (_meaning(found), *_doubts(found), *_more(found))


def _meaning(found: Certification) -> str:
    where = "pixels in [0, 1]" if found.settings.units == "pixels" else "the network's input"
    return f"Radii are l2 distances in {where}. Inputs nearer than the certified one are decided alike."


def _doubts(found: Certification) -> Iterable[str]:
    """Images at which nothing is decided."""
    undecided = [image for image in found.images if image.decision is None]
    if undecided:
        yield f"{count_text(len(undecided), 'image')} without a decision: a logit is no number."
    ties = [image for image in found.images if image.margin is not None and image.margin <= (image.allowance or 0.0)]
    if ties:
        yield f"{count_text(len(ties), 'tie')}: rounding may move the margin by as much, so that nothing is certified."


def _more(found: Certification) -> Iterable[str]:
    settings = found.settings
    if settings.attack_steps:
        steps, starts = count_text(settings.attack_steps, "step"), count_text(settings.attack_starts, "start")
        yield (
            f"The attack takes {steps} from each of {starts} and is not confined to [0, 1]. The true radius lies between the "
            "certified one and the distance at which the attack succeeds."
        )
    yield from map(printable, found.notes)
