"""Where each mark of the study's figures goes; the templates draw them."""

from collections.abc import Sequence
from dataclasses import replace

from expril.report.chart import Axis, Figure, Key, Line, Place, Rule, Stage, Tick, count_axis, make_axis
from lab.holdout.draws import SETTINGS, SIGNALS
from lab.holdout.model import Band, Found, Shown
from lab.holdout.runs import EACH_STEP, NO_EPSILON
from lab.holdout.tables import title_of

TRAIN_KEY, TEST_KEY, FRESH_KEY = Key(2, False, "training"), Key(1, False, "test"), Key(3, False, "fresh: the truth")
BELIEVED_KEY = Key(1, True, "what the learner believes")
_LEFT, _RIGHT = 9.0, 97.0
_HEIGHT, _BELOW = 270, 18
_MARKED = 5
"""Every fifth step has a mark; the line goes through all of them."""
_PERCENT, _SIGNALS = (1.0, 2.0, 5.0, 10.0), (2.0,)


def curves(found: Found) -> tuple[Figure, ...]:
    """Accuracy against the number of variables, one panel a procedure, all on one axis."""
    if not found.main:
        return ()
    bands = [band for shown in found.main for _, band in _bands(shown)]
    low, high = min(min(band.low) for band in bands), max(max(band.high) for band in bands)
    stage = Stage(make_axis(low, high, _PERCENT), _HEIGHT)
    return tuple(_panel(stage, shown) for shown in found.main)


def _bands(shown: Shown) -> tuple[tuple[Key, Band], ...]:
    middle = (TEST_KEY, shown.test) if shown.epsilon == NO_EPSILON else (BELIEVED_KEY, shown.believed)
    return (TRAIN_KEY, shown.train), middle, (FRESH_KEY, shown.fresh)


def _panel(stage: Stage, shown: Shown) -> Figure:
    axis = _axis(shown)
    lines = tuple(_line(stage, axis, key, band, "%") for key, band in _bands(shown))
    ceiling = SETTINGS[shown.setting].ceiling
    return _figure(
        stage, axis, title_of(shown), lines, (Rule("majority", stage.y(ceiling), f"the best rule: {ceiling:.1f} %"),)
    )


def signal_figure(found: Found) -> Figure | None:
    """Signal variables found against the number chosen, a line a procedure."""
    rows = _choosing(found)
    if not rows:
        return None
    stage = Stage(make_axis(0, SIGNALS, _SIGNALS), _HEIGHT)
    axis = _axis(rows[0])
    lines = tuple(
        _line(stage, axis, key, shown.found, "signals", errors=False)
        for key, shown in zip(signal_keys(found), rows, strict=True)
    )
    return _figure(stage, axis, "signal variables found", lines)


def signal_keys(found: Found) -> tuple[Key, ...]:
    """Of the lines of `signal_figure`."""
    keys, colour = [], {False: 0, True: 0}
    for shown in _choosing(found):
        asked = shown.epsilon != NO_EPSILON
        keys.append(Key(colour[asked], asked, title_of(shown)))
        colour[asked] += 1
    return tuple(keys)


def _choosing(found: Found) -> list[Shown]:
    """Procedures that choose each in a way of their own."""
    return [shown for shown in found.main if shown.procedure != EACH_STEP]


def _axis(shown: Shown) -> Axis:
    return count_axis(range(1, len(shown.fresh.mean) + 1), left=_LEFT, right=_RIGHT)


def _line(stage: Stage, axis: Axis, key: Key, band: Band, unit: str, *, errors: bool = True) -> Line:
    places = [
        Place(axis.place(step), mean, (low, high), f"{mean:.1f} {unit} with {step} variables")
        for step, (mean, low, high) in enumerate(zip(band.mean, band.low, band.high, strict=True), 1)
    ]
    whole = stage.line(key.index, key.hollow, key.name, places, errors=errors)
    last = len(places)
    kept = [mark for step, mark in enumerate(whole.marks, 1) if step in (1, last) or step % _MARKED == 0]
    return replace(whole, marks=tuple(kept))


def _figure(stage: Stage, axis: Axis, name: str, lines: Sequence[Line], rules: tuple[Rule, ...] = ()) -> Figure:
    last = int(axis.high)
    ticks = tuple(
        Tick(str(step), axis.at(step)) for step in range(1, last + 1) if step in (1, last) or step % (2 * _MARKED) == 0
    )
    words = "; ".join(f"{line.title}: {line.marks[0].text}, {line.marks[-1].text}" for line in lines)
    return Figure(stage, name, ticks, tuple(lines), words, below=_BELOW, rules=rules)
