"""What was done to make a conversation sound, as facts and prompts hold it."""

from jackline_server.core.frozen import frozen


@frozen
class Repairs:
    """What was done to make a conversation sound, counted by kind; `hygiene` says what is.

    `dangling` calls got a neutral result, `orphans` are results without a call and were left out, `moved`
    ones stood away from their reply. `empty` messages were left out, `merged` ones put into the one before.
    Malformed arguments were `quoted`, ids and names `renamed`. `demoted` are system messages that came from
    outside, `unasked` replies that no request came before.
    """

    dangling: int = 0
    orphans: int = 0
    moved: int = 0
    empty: int = 0
    merged: int = 0
    quoted: int = 0
    renamed: int = 0
    demoted: int = 0
    unasked: int = 0

    def __bool__(self) -> bool:
        return any(self.__dict__.values())

    def plus(self, other: "Repairs") -> "Repairs":
        """Both together."""
        return Repairs(**{name: count + getattr(other, name) for name, count in self.__dict__.items()})

    def minus(self, other: "Repairs") -> "Repairs":
        """What this has more than the other."""
        return Repairs(**{name: count - getattr(other, name) for name, count in self.__dict__.items()})


NO_REPAIRS = Repairs()
