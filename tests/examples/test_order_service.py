"""The refund example's own order service, as a process: what it refunds, and that it does so once."""

import http.client
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "refunds"
SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A running order service and its ledger."""

    port: int
    ledger: Path

    def ask(
        self, method: str, path: str, body: object = None, *, key: str = ""
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            headers = {"idempotency-key": key} if key else {}
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ledger.read_text(encoding="utf-8").splitlines()]


@contextmanager
def open_shop(ledger: Path) -> Generator[Shop]:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "order_service.py"), "--ledger", str(ledger)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Shop(port=int(process.stdout.readline().rpartition(":")[2]), ledger=ledger)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Shop]:
    with open_shop(tmp_path / "ledger.jsonl") as opened:
        yield opened


REFUND = {"percent": 100, "reason": "Broken."}


def test_an_order_within_the_policy_is_refunded(shop: Shop) -> None:
    status, order = shop.ask("GET", "/eu/orders/A-1001")
    assert (status, order["refund_decision"]) == (200, "automatic_refund")
    status, refund = shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k1")
    assert (status, refund["refunded_cents"]) == (201, order["total_cents"])


def test_the_same_key_refunds_once(shop: Shop) -> None:
    first = shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k1")
    assert shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k1") == first
    assert [entry["repeated"] for entry in shop.entries()] == [False, True]


def test_the_same_key_refunds_once_over_a_restart(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with open_shop(ledger) as shop:
        first = shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k1")
    with open_shop(ledger) as shop:
        assert shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k1") == first
        assert shop.ask("GET", "/eu/orders/A-1001")[1]["refund_decision"] == "person_decides"
        assert shop.entries()[-2]["repeated"] is True


@pytest.mark.parametrize(
    ("path", "body", "key", "status", "error"),
    [
        ("/eu/orders/A-1001/refunds", REFUND, "", 400, "no_idempotency_key"),
        ("/eu/orders/A-1002/refunds", REFUND, "k1", 422, "person_decides"),
        ("/eu/orders/A-1003/refunds", REFUND, "k1", 422, "person_decides"),
        ("/eu/orders/A-1004/refunds", REFUND, "k1", 422, "person_decides"),
        ("/eu/orders/A-9999/refunds", REFUND, "k1", 404, "order_not_found"),
        ("/us/orders/A-1001/refunds", REFUND, "k1", 404, "order_not_found"),
        ("/eu/orders/A-1001/refunds", {"percent": 200}, "k1", 422, "bad_percent"),
        ("/eu/orders/A-1001/refunds", [1], "k1", 422, "bad_percent"),
        ("/helpdesk/tickets", [1], "", 400, "not_an_object"),
    ],
)
def test_what_the_policy_does_not_grant_is_refused(
    shop: Shop, path: str, body: object, key: str, status: int, error: str
) -> None:
    answered, answer = shop.ask("POST", path, body, key=key)
    assert (answered, answer["error"]) == (status, error)


def test_a_second_refund_and_a_reused_key_are_refused(shop: Shop) -> None:
    shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k1")
    again = shop.ask("POST", "/eu/orders/A-1001/refunds", REFUND, key="k2")
    other = shop.ask("POST", "/us/orders/U-2001/refunds", REFUND, key="k1")
    assert (again[0], again[1]["error"]) == (409, "already_refunded")
    assert (other[0], other[1]["error"]) == (409, "idempotency_key_reused")


def test_each_request_opens_a_ticket(shop: Shop) -> None:
    tickets = [shop.ask("POST", "/helpdesk/tickets", {"order": "A-1003"})[1]["ticket"] for _ in range(2)]
    assert tickets == ["T-0001", "T-0002"]
