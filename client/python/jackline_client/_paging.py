"""Lists that come in pages, as one."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

_Item = TypeVar("_Item")


async def pages(
    page: Callable[[str], Awaitable[tuple[Iterable[_Item], str]]],
) -> AsyncGenerator[_Item]:
    """Yields the items of each page. `page` reads one by its token, and names the next; empty on the last."""
    token = ""
    while True:
        items, token = await page(token)
        for item in items:
            yield item
        if not token:
            return
