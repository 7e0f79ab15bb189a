"""Two evaluations against each other: what broke first, then what was mended, then what it costs.

Owns what counts as a difference. Pure. A case is the same one by the names of its suite and its own. Costs
are those of a try: the mean with the least and the most, since models don't say the same thing twice.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from jackline_server.commands.evaluation.expecting import dollars
from jackline_server.commands.evaluation.reporting import Line, reasons
from jackline_server.commands.evaluation.results import CaseResult, Results, Spent, Verdict
from jackline_server.core.frozen import frozen

_NOTED = 0.1
"""From a tenth on, the mean of what a case uses has changed."""

_Key = tuple[str, str]


@frozen
class _Measure:
    """Something that a try uses; a difference of less than `least` is none."""

    name: str
    of: Callable[[Spent], int]
    words: Callable[[int], str]
    least: int = 1


_MEASURES = (
    _Measure(name="tokens", of=lambda one: one.tokens, words=lambda value: f"{value:,}"),
    _Measure(name="cost", of=lambda one: one.cost_micros, words=dollars),
    _Measure(
        name="seconds",
        of=lambda one: one.active_ms,
        words=lambda value: f"{value / 1_000:.1f}",
        least=100,
    ),
)


@frozen
class Comparison:
    """The cases of two evaluations, by what became of them. An interrupted one has not tried all of them."""

    regressed: tuple[_Key, ...]
    fixed: tuple[_Key, ...]
    failing: tuple[_Key, ...]
    added: tuple[_Key, ...]
    gone: tuple[_Key, ...]
    untried: tuple[_Key, ...]

    @property
    def is_sound(self) -> bool:
        """True if all that is in both was tried in both, and nothing that passed before does so no more."""
        return not self.regressed and not self.untried

    def document(self) -> dict[str, list[str]]:
        """It for programs: the cases, as `suite/case`, by what became of them."""
        groups = ("regressed", "fixed", "failing", "added", "gone", "untried")
        return {group: [_name(key) for key in getattr(self, group)] for group in groups}


def compared(before: Results, after: Results) -> Comparison:
    """What became of each case. One that was not tried in both is neither broken nor mended."""
    old, new = before.cases(), after.cases()
    both = [key for key in new if key in old and old[key].tries and new[key].tries]
    passed = {key for key in both if old[key].verdict is Verdict.PASSED}
    passes = {key for key in both if new[key].verdict is Verdict.PASSED}
    return Comparison(
        regressed=tuple(key for key in both if key in passed and key not in passes),
        fixed=tuple(key for key in both if key not in passed and key in passes),
        failing=tuple(key for key in both if key not in passed and key not in passes),
        added=tuple(key for key in new if key not in old),
        gone=tuple(key for key in old if key not in new),
        untried=tuple(key for key in new if key in old and key not in both),
    )


def comparison_lines(before: Results, after: Results) -> Iterator[Line]:
    """The comparison for people, the worst first."""
    found, old, new = compared(before, after), before.cases(), after.cases()
    for key in found.regressed:
        yield Line(f"regressed  {_name(key)}  {_passes(old[key])} -> {_passes(new[key])}", "bad")
        why = dict.fromkeys(line for one in new[key].tries for line in reasons(one))
        yield from (Line(f"           {line}") for line in why)
    for key in found.fixed:
        yield Line(f"fixed      {_name(key)}  {_passes(old[key])} -> {_passes(new[key])}", "good")
    for key in found.failing:
        yield Line(f"no pass    {_name(key)}  {_passes(old[key])} -> {_passes(new[key])}")
    for key in found.added:
        style = "" if new[key].verdict is Verdict.PASSED else "bad"
        yield Line(f"new        {_name(key)}  {_passes(new[key])}", style)
    for key in found.gone:
        yield Line(f"gone       {_name(key)}  {_passes(old[key])}")
    for key in found.untried:
        yield Line(f"not tried  {_name(key)}  {_passes(old[key])} -> {_passes(new[key])}", "bad")
    yield from _uses(old, new)
    other = len(found.regressed) + len(found.fixed) + len(found.untried)
    same = len([key for key in new if key in old]) - other
    untried = f", {len(found.untried)} not tried in both" if found.untried else ""
    yield Line(
        f"{len(found.regressed)} regressed, {len(found.fixed)} fixed, {same} as before, "
        f"{len(found.added)} new, {len(found.gone)} gone{untried}",
        "good" if found.is_sound else "bad",
    )


def _uses(old: dict[_Key, CaseResult], new: dict[_Key, CaseResult]) -> Iterator[Line]:
    """A line for each case whose use has changed, and for each measure of it."""
    for key, case in new.items():
        if key not in old:
            continue
        for one in _MEASURES:
            was, now = _values(old[key], one.of), _values(case, one.of)
            if was and now and _has_changed(was, now, least=one.least):
                change = f"{_spread(was, one.words)} -> {_spread(now, one.words)}{_percent(was, now)}"
                yield Line(f"{one.name:<9}  {_name(key)}  {change}", "dim")


def _values(case: CaseResult, measure: Callable[[Spent], int]) -> list[int]:
    return [measure(one.spent) for one in case.tries if one.verdict is not Verdict.ERROR]


def _has_changed(was: Sequence[int], now: Sequence[int], *, least: int) -> bool:
    """True if the means are apart by a tenth, and neither lies within the other's spread."""
    old, new = fmean(was), fmean(now)
    if abs(new - old) < max(_NOTED * max(old, new), least):
        return False
    overlaps = len(was) > 1 and len(now) > 1 and min(was) <= new <= max(was) and min(now) <= old <= max(now)
    return not overlaps


def _spread(values: Sequence[int], words: Callable[[int], str]) -> str:
    mean = words(round(fmean(values)))
    if min(values) == max(values):
        return mean
    return f"{mean} ({words(min(values))} to {words(max(values))})"


def _percent(was: Sequence[int], now: Sequence[int]) -> str:
    old, new = fmean(was), fmean(now)
    return f", {(new - old) / old:+.0%}" if old else ""


def _name(key: _Key) -> str:
    return "/".join(key)


def _passes(case: CaseResult) -> str:
    return f"{case.passed_tries}/{len(case.tries)}" if case.tries else "none"
