"""Words that a command can't do without: guidance, what went wrong.

Owns reading them, and refusing what says nothing with exit code 2. What is more than that is for the server.
"""

import typer

from jackline_client.cli.given import read_file

_LARGEST = 64 * 1024


def read_words(text: str, *, name: str) -> str:
    """Reads a text that has to say something: as it is given, or for `-` from standard input."""
    words = read_file("-", limit=_LARGEST).decode("utf-8", "replace").strip() if text == "-" else text
    return required_words(words, name=name)


def required_words(words: str, *, name: str) -> str:
    """Returns the words. Refuses none, and white space alone, as a script gives whose variable is empty."""
    if not words.strip():
        raise typer.BadParameter(f"{name} is empty: say something in it; nothing was done")
    return words
