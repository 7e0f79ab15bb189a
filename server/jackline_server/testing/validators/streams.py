"""Validators of what watchers were sent: O2 in its six parts, O4 tokens, D2 nothing before it is durable."""

from collections.abc import Callable, Iterator
from itertools import pairwise

from jackline_server.testing.validators.history import OK, REFUSED, History, Stream, Violation

EXPIRED = "EVENTS_EXPIRED"
IN_FUTURE = "SEQUENCE_IN_FUTURE"


def ordered(history: History) -> list[Violation]:
    """O2: a stream delivers its events in the order of their sequence."""
    return _each(history, _ordered)


def unique(history: History) -> list[Violation]:
    """O2: a stream delivers no event twice."""
    return _each(history, _unique)


def reliable(history: History) -> list[Violation]:
    """O2: a stream opened after k delivers k+1 and on, without a gap."""
    return _each(history, _reliable)


def atomic(history: History) -> list[Violation]:
    """O2: a stream that the server ends has delivered whole commits."""
    ends: dict[str, set[int]] = {}
    for commit in history.commits:
        ends.setdefault(commit.run, set()).add(commit.after + commit.count)
    found: list[Violation] = []
    for stream in history.streams:
        sent = _sequences(stream)
        whole = ends.get(stream.run)
        if whole is not None and sent and stream.ending in (OK, REFUSED) and sent[-1] not in whole:
            found.append(_violation("O2", stream, f"ended at {sent[-1]}, in the middle of a commit"))
    return found


def resumable(history: History) -> list[Violation]:
    """O2: a stream may be opened after any event that was ever shown, and replays are byte-identical."""
    found: list[Violation] = []
    shown: dict[tuple[str, int], str] = {}
    seen: list[tuple[int, str, int]] = []
    for stream in history.streams:
        for delivery in stream.deliveries:
            for sequence, digest in delivery.events:
                seen.append((delivery.at_ms, stream.run, sequence))
                if shown.setdefault((stream.run, sequence), digest) != digest:
                    found.append(_violation("O2", stream, f"shows another event {sequence} than one before"))
    for stream in history.streams:
        known = max((s for at, run, s in seen if run == stream.run and at < stream.begin_ms), default=0)
        if stream.reason in (IN_FUTURE, EXPIRED) and 0 < stream.after <= known:
            found.append(_violation("O2", stream, f"can't be resumed after {stream.after}: {stream.reason}"))
    return found


def bookmarkable(history: History) -> list[Violation]:
    """O2: each delivery says truly through where events were sent, and one comes often enough."""
    within = history.limits.heartbeat_within_ms
    found: list[Violation] = []
    for stream in history.streams:
        position = stream.after
        for delivery in stream.deliveries:
            position = max([position, *(sequence for sequence, _ in delivery.events)])
            if delivery.sent_through != position:
                found.append(
                    _violation("O2", stream, f"says {delivery.sent_through} was sent, and {position} was")
                )
        times = [stream.begin_ms, *(delivery.at_ms for delivery in stream.deliveries), stream.end_ms]
        silence = max(after - before for before, after in pairwise(times))
        if within is not None and silence > within:
            found.append(_violation("O2", stream, f"was silent for {silence} ms"))
    return found


def o4(history: History) -> list[Violation]:
    """A position beyond the head, or below what is kept, is refused with a reason that says how to go on."""
    found: list[Violation] = []
    for stream in history.streams:
        log = history.log(stream.run)
        beyond = bool(log) and stream.after > log[-1].sequence
        if beyond and stream.ending == OK:
            found.append(_violation("O4", stream, f"ended OK, opened after {stream.after} of {len(log)}"))
        if beyond and any(delivery.events for delivery in stream.deliveries):
            found.append(
                _violation("O4", stream, f"was sent events, opened after {stream.after} of {len(log)}")
            )
        if stream.ending == REFUSED:
            found.extend(_refusal(stream))
    return found


def _refusal(stream: Stream) -> Iterator[Violation]:
    if stream.reason == IN_FUTURE:
        head = stream.metadata.get("head_sequence", "")
        if not head.isdigit() or int(head) >= stream.after:
            yield _violation("O4", stream, f"opened after {stream.after} is refused with the head `{head}`")
    if stream.reason == EXPIRED:
        oldest = stream.metadata.get("oldest_sequence", "")
        if not oldest.isdigit() or int(oldest) <= stream.after + 1:
            yield _violation(
                "O4", stream, f"opened after {stream.after} is refused with the oldest `{oldest}`"
            )


def d2(history: History) -> list[Violation]:
    """Whatever a watcher was shown is in the log, with the same bytes."""
    found: list[Violation] = []
    for stream in history.streams:
        log = {event.sequence: event.digest for event in history.log(stream.run)}
        if not log:
            continue
        for delivery in stream.deliveries:
            for sequence, digest in delivery.events:
                if log.get(sequence) != digest:
                    found.append(_violation("D2", stream, f"shows an event {sequence} that the log has not"))
    return found


def _each(history: History, judge: Callable[[list[int], int], str]) -> list[Violation]:
    found: list[Violation] = []
    for stream in history.streams:
        sentence = judge(_sequences(stream), stream.after)
        if sentence:
            found.append(_violation("O2", stream, sentence))
    return found


def _ordered(sent: list[int], _after: int) -> str:
    return next(
        (f"sends {later} after {earlier}" for earlier, later in pairwise(sent) if later < earlier), ""
    )


def _unique(sent: list[int], _after: int) -> str:
    return f"sends {len(sent) - len(set(sent))} events twice" if len(set(sent)) < len(sent) else ""


def _reliable(sent: list[int], after: int) -> str:
    if not sent:
        return ""
    missing = set(range(after + 1, max(sent) + 1)) - set(sent)
    if missing:
        return f"opened after {after} never sends {min(missing)}"
    return f"opened after {after} sends {min(sent)}" if min(sent) <= after else ""


def _sequences(stream: Stream) -> list[int]:
    return [sequence for delivery in stream.deliveries for sequence, _ in delivery.events]


def _violation(guarantee: str, stream: Stream, sentence: str) -> Violation:
    who = f"a stream of {stream.client} from {stream.begin_ms} ms"
    return Violation(guarantee=guarantee, run=stream.run, sentence=f"{who} {sentence}")
