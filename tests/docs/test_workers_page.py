"""The pieces of docs/workers.md in Go, TypeScript and Java are those of the programs that the tests run."""

import pytest

from tests.docs.pages import ROOT, blocks, page

PROGRAMS = {
    "go": "client/go/seats/main.go",
    "typescript": "client/typescript/src/seats.ts",
    "java": "client/java/src/main/java/jackline/example/Seats.java",
}


@pytest.mark.parametrize("language", list(PROGRAMS))
def test_every_piece_is_in_the_program_word_for_word(language: str) -> None:
    program = (ROOT / PROGRAMS[language]).read_text(encoding="utf-8")
    pieces = blocks(page("workers.md"), language)
    assert len(pieces) >= 2
    assert [piece.line for piece in pieces if piece.code not in program] == []
