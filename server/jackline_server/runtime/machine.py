"""The real clock and the real chance of this machine."""

import asyncio
import random
import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_CHARS = 26
_RANDOM_BITS = 80


class SystemClock:
    """Time as the machine has it. Implements `ports.Clock`."""

    def unix_ms(self) -> int:
        """Wall-clock time."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Time that never jumps."""
        return time.monotonic_ns() // 1_000_000

    async def sleep(self, ms: int) -> None:
        """Return after so long."""
        await asyncio.sleep(ms / 1000)


class SystemChance:
    """Ids from the operating system's randomness, jitter from a fast generator. Implements `ports.Chance`."""

    def new_id(self, prefix: str) -> str:
        """48 bits of time and 80 of chance, in base 32: sorts by time, can't be guessed."""
        return sortable_id(prefix, time.time_ns() // 1_000_000, secrets.randbits(_RANDOM_BITS))

    def fraction(self) -> float:
        """A number from 0 up to 1, for jitter alone."""
        return random.random()  # noqa: S311 - jitter is no secret


def sortable_id(prefix: str, unix_ms: int, chance: int) -> str:
    """The id that this time and these 80 bits of chance make."""
    number = (unix_ms << _RANDOM_BITS) | chance
    characters = [_ALPHABET[(number >> (5 * place)) & 31] for place in range(_ID_CHARS)]
    return prefix + "".join(reversed(characters))
