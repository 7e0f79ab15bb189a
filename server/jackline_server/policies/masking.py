"""Masks for personal data: what is recognised in a text, and the marks that stand in its place.

Owns the recognisers. Each looks for candidates with bounded patterns, so that time is linear in the text, and
keeps those that bear their own check: the checksum of a card (Luhn), of an account (modulo 97) or of a
national number, an address that parses, a telephone number of its region. What carries no check of its own is
masked when it looks like what it is taken for: too much is better than too little. A name or a street is not
recognised.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import phonenumbers
from stdnum import iban, luhn

from jackline_server.core import json_text
from jackline_server.core.gate_plans import MaskPlan, Pii
from jackline_server.core.plan import JsonValue
from jackline_server.policies import json_in_text

_PIECE_CHARS = 32_768
_SEAM = re.compile(r"\n|(?<=[^\W\d]{4})[ \t](?=[^\d]{6})")
_EMAIL = re.compile(
    r"(?<![\w.+'-])[\w.!#$%&*/=?^`{|}~+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,63}(?![\w-])"
)
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,3})?(?![A-Za-z0-9])"
)
_DIGITS = re.compile(r"(?<![\d.,])\d(?:[ -]?\d){12,18}(?![\d])")
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])"
)
_PHONE = re.compile(r"(?<![\w+])(?:\+|00)[ ]?[1-9](?:[ ().\-/]{0,3}\d){6,14}(?!\d)")
_LOCAL_PHONE = re.compile(r"(?<![\w+])\(?\d(?:[ ().\-/]{0,3}\d){5,14}(?!\d)")
_NINO = re.compile(
    r"(?<!\w)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)", re.IGNORECASE
)
_BETWEEN = re.compile(r"[ .\-/+]")


def _written(*parts: tuple[str, int]) -> re.Pattern[str]:
    """So many characters of each kind, as people write them: with a separator here and there."""
    each = [kind for kind, count in parts for _ in range(count)]
    return re.compile(rf"(?<!\w){'[ ./-]?'.join(each)}(?!\w)", re.IGNORECASE)


_DIGIT = r"\d"
_TELLING = (
    ("us.ssn", re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")),
    ("br.cpf", re.compile(r"(?<![\w.])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])")),
    ("fi.hetu", re.compile(r"(?<!\w)\d{6}[-+A-FU-Y]\d{3}[0-9A-Z](?!\w)")),
    ("it.codicefiscale", re.compile(r"(?<!\w)[A-Z]{6}[A-Z0-9]{9}[A-Z](?!\w)", re.IGNORECASE)),
    ("cn.ric", re.compile(r"(?<!\w)\d{17}[\dX](?!\w)", re.IGNORECASE)),
    ("fr.nir", _written((r"[12]", 1), (_DIGIT, 5), (r"[\dAB]", 1), (_DIGIT, 8))),
    ("es.dni", _written((_DIGIT, 8), ("[A-Z]", 1))),
    ("es.nie", _written(("[XYZ]", 1), (_DIGIT, 7), ("[A-Z]", 1))),
)
"""National numbers whose letters, length or checksum tell them from any other number, by module and looks."""

_BY_REGION = {
    "BE": (("be.nn", _written((_DIGIT, 11))),),
    "BR": (("br.cpf", _written((_DIGIT, 11))),),
    "CA": (("ca.sin", _written((_DIGIT, 9))),),
    "CZ": (("cz.rc", _written((_DIGIT, 10))), ("cz.rc", _written((_DIGIT, 9)))),
    "DE": (("de.idnr", _written((_DIGIT, 11))),),
    "DK": (("dk.cpr", _written((_DIGIT, 10))),),
    "GB": (("gb.nhs", _written((_DIGIT, 10))),),
    "IN": (("in_.aadhaar", _written((_DIGIT, 12))),),
    "KR": (("kr.rrn", _written((_DIGIT, 13))),),
    "NL": (("nl.bsn", _written((_DIGIT, 9))),),
    "NO": (("no.fodselsnummer", _written((_DIGIT, 11))),),
    "PL": (("pl.pesel", _written((_DIGIT, 11))),),
    "PT": (("pt.nif", _written((_DIGIT, 9))),),
    "SE": (("se.personnummer", _written((_DIGIT, 12))), ("se.personnummer", _written((_DIGIT, 10)))),
    "US": (("us.ssn", _written((_DIGIT, 9))),),
    "ZA": (("za.idnr", _written((_DIGIT, 13))),),
}
"""National numbers that are plain digits: in another region they are anything."""

REGIONS = frozenset(phonenumbers.SUPPORTED_REGIONS)
"""The regions that telephone numbers are known of."""


class PiiMasks:
    """Implements the runtime's `Masks`. Keeps nothing; safe to share between threads."""

    def text(self, text: str, plan: MaskPlan) -> str:
        """See `Masks.text`. JSON that stands in the text is masked in what it holds, and stays JSON."""
        return "".join(
            self._document(part, plan) if isinstance(part, json_in_text.Document) else _words(part, plan)
            for part in json_in_text.split(text)
        )

    def json(self, text: str, plan: MaskPlan) -> str:
        """See `Masks.json`. A document without such data keeps its text."""
        try:
            value = json_text.parse(text)
        except json_text.JsonError:
            return self.text(text, plan)
        return self._document(json_in_text.Document(text=text, value=value), plan)

    def _document(self, document: json_in_text.Document, plan: MaskPlan) -> str:
        masked = self._masked(document.value, plan)
        return document.text if masked == document.value else json_text.write(masked)

    def _masked(self, value: JsonValue, plan: MaskPlan) -> JsonValue:
        match value:
            case str():
                return self.text(value, plan)
            case bool():
                return value
            case int():
                return self._number(value, value, plan)
            case float() if value.is_integer():  # such as 4.1e15: readers write it like a whole number
                return self._number(value, int(value), plan)
            case list():
                return [self._masked(item, plan) for item in value]
            case dict():
                return {
                    name: self._masked(item, plan)
                    for name, item in zip(self._names(value, plan), value.values(), strict=True)
                }
            case _:
                return value

    def _number(self, value: JsonValue, whole: int, plan: MaskPlan) -> JsonValue:
        written = str(whole)
        masked = self.text(written, plan)
        return value if masked == written else masked

    def _names(self, names: Iterable[str], plan: MaskPlan) -> Iterator[str]:
        """The keys of one object, masked and still apart: those that would be the same are numbered."""
        masked = {name: self.text(name, plan) for name in names}
        taken = {name for name, shown in masked.items() if name == shown}
        counts = Counter[str]()
        for name, mark in masked.items():
            shown = mark
            while shown in taken and name != mark:
                counts[mark] += 1
                shown = f"{mark} {counts[mark] + 1}"
            taken.add(shown)
            yield shown


def _words(text: str, plan: MaskPlan) -> str:
    return "".join(
        json_in_text.changed_as_read(piece, lambda piece: _whole(piece, plan)) for piece in _pieces(text)
    )


def _whole(text: str, plan: MaskPlan) -> str:
    for kind in _ORDER:
        if kind in plan.kinds:
            text = _MASKS[kind](text, plan)
    return text


def _pieces(text: str) -> Iterator[str]:
    """A long text in parts that can be masked apart: other threads get their turn between two of them.

    A seam is where nothing that is recognised can lie across; where there is none, the part is as long as it
    is.
    """
    at = 0
    while len(text) - at > _PIECE_CHARS and (seam := _SEAM.search(text, at + _PIECE_CHARS)) is not None:
        yield text[at : seam.end()]
        at = seam.end()
    yield text[at:]


# --- one kind each -------------------------------------------------------------------------------


def _email(text: str, plan: MaskPlan) -> str:
    del plan
    return _EMAIL.sub("[email]", text) if "@" in text else text


def _iban(text: str, plan: MaskPlan) -> str:
    del plan
    return _IBAN.sub(_iban_mark, text)


def _iban_mark(match: re.Match[str]) -> str:
    """The account masked, and what of the next words was taken for its end left as it is."""
    found = match.group()
    for end in _ends(found):
        if _has_remainder_one(found[:end]) and iban.is_valid(found[:end]):
            return f"[iban]{found[end:]}"
    return found


def _has_remainder_one(candidate: str) -> bool:
    """The account's own checksum, before its country's rules are looked up, which takes long."""
    bare = _BETWEEN.sub("", candidate)
    return int("".join(str(int(letter, 36)) for letter in bare[4:] + bare[:4])) % 97 == 1


def _ends(found: str) -> Iterator[int]:
    """Where a candidate may end: at its end, and before each group from the last one on."""
    yield len(found)
    for at in range(len(found) - 1, 14, -1):
        if found[at] in " -":
            yield at


def _card(text: str, plan: MaskPlan) -> str:
    del plan
    return _DIGITS.sub(lambda match: _kept_unless(match.group(), _is_card, "[card]"), text)


def _is_card(candidate: str) -> bool:
    digits = re.sub(r"[ -]", "", candidate)
    return len(set(digits)) > 1 and bool(luhn.is_valid(digits))


def _ip(text: str, plan: MaskPlan) -> str:
    del plan
    text = _IPV4.sub(lambda match: _kept_unless(match.group(), _is_address, "[ip]"), text)
    if ":" not in text:
        return text
    return _IPV6.sub(lambda match: _kept_unless(match.group(), _is_address, "[ip]"), text)


def _is_address(candidate: str) -> bool:
    try:
        found = ipaddress.ip_address(candidate)
    except ValueError:
        return False
    return not found.is_unspecified


def _national_id(text: str, plan: MaskPlan) -> str:
    text = _NINO.sub("[national_id]", text)
    for name, looks in (*_TELLING, *_BY_REGION.get(plan.region, ())):
        text = looks.sub(lambda match, name=name: _national_mark(name, match.group()), text)
    return text


def _national_mark(name: str, candidate: str) -> str:
    return "[national_id]" if _known(name, candidate) else candidate


@lru_cache(maxsize=4_096)
def _known(name: str, candidate: str) -> bool:
    try:
        return bool(_module(name).is_valid(candidate))
    except (ValueError, IndexError, TypeError):
        return False


@lru_cache
def _module(name: str) -> Any:  # noqa: ANN401 - the library has no types
    return import_module(f"stdnum.{name}")


def _phone(text: str, plan: MaskPlan) -> str:
    text = _PHONE.sub("[phone]", text)
    if not plan.region:
        return text
    return _LOCAL_PHONE.sub(
        lambda match: _kept_unless(match.group(), lambda found: _is_phone(found, plan.region), "[phone]"),
        text,
    )


@lru_cache(maxsize=4_096)
def _is_phone(candidate: str, region: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(candidate, region))
    except phonenumbers.NumberParseException:
        return False


def _kept_unless(candidate: str, holds: Callable[[str], bool], mark: str) -> str:
    return mark if holds(candidate) else candidate


_ORDER = (Pii.EMAIL, Pii.IBAN, Pii.CARD, Pii.IP, Pii.NATIONAL_ID, Pii.PHONE)
"""The kinds that bear a check come before those that are only looks."""

_MASKS: dict[Pii, Callable[[str, MaskPlan], str]] = {
    Pii.EMAIL: _email,
    Pii.IBAN: _iban,
    Pii.CARD: _card,
    Pii.IP: _ip,
    Pii.NATIONAL_ID: _national_id,
    Pii.PHONE: _phone,
}
