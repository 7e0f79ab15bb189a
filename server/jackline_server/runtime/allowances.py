"""What may be spent in any minute, such as requests, tokens or calls, and how fast something may come.

Owns the sliding minute and the pace. Does not own who waits for them, nor what a unit is.
"""

from collections import deque
from dataclasses import dataclass

MINUTE_S = 60.0


@dataclass(slots=True)
class Spent:
    """Something that a minute's allowance was spent on."""

    at_s: float
    amount: int


class MinuteAllowance:
    """So much may be spent in any minute. More than that at once is let through when nothing else was."""

    __slots__ = ("_allowed", "_spent", "_sum")

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self._spent: deque[Spent] = deque()
        self._sum = 0

    def wait_s(self, amount: int, now_s: float) -> float:
        """How long until so much may be spent; 0 if it may be now."""
        spent = self._spent
        while spent and spent[0].at_s + MINUTE_S <= now_s:
            self._sum -= spent.popleft().amount
        over = self._sum + amount - self._allowed
        if over <= 0 or not spent:
            return 0
        for one in spent:
            over -= one.amount
            if over <= 0:
                return one.at_s + MINUTE_S - now_s
        return spent[-1].at_s + MINUTE_S - now_s

    def left(self, now_s: float) -> int:
        """How much may be spent now; 0 while more than is allowed was."""
        self.wait_s(0, now_s)  # what is out of its minute counts no more
        return max(self._allowed - self._sum, 0)

    def spend(self, amount: int, now_s: float) -> Spent:
        """Note that it is spent."""
        spent = Spent(now_s, amount)
        self._spent.append(spent)
        self._sum += amount
        return spent

    def correct(self, spent: Spent, amount: int) -> None:
        """Note what it came to. What is out of its minute does not count any more."""
        if self._spent and spent.at_s >= self._spent[0].at_s:
            self._sum += amount - spent.amount
            spent.amount = amount


class Pace:
    """So many a second, evenly, after a second's worth at once."""

    __slots__ = ("_ahead_s", "_seen_s")

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._seen_s = 0.0

    def wait_s(self, a_second: float, now_s: float) -> float:
        """One has come: how long to wait before the next is let in; 0 for not at all."""
        self._ahead_s = max(self._ahead_s - (now_s - self._seen_s), 0.0) + 1 / a_second
        self._seen_s = now_s
        return max(self._ahead_s - 1.0, 0.0)
