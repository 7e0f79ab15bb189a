"""The example's own order system: orders, policies, refunds and help-desk tickets over HTTP, on the loopback.

Owns the example's data and what it takes for truth: whether an order may be refunded without a person, and
that the same idempotency key refunds once. Keeps a ledger: a file with one JSON line for every request that
it answered, from which refunds and tickets are known again after a restart. Knows nothing of Jackline; it
stands for any service that a shop already has.

    GET  /healthz
    GET  /<shop>/orders/<order>             an order, with what its shop would refund without asking
    GET  /<shop>/policies/<topic>           refunds, shipping or warranty
    POST /<shop>/orders/<order>/refunds     {"percent": 25 | 50 | 100, "reason": "…"}, with an Idempotency-Key
    POST /helpdesk/tickets                  any JSON object; each request opens a ticket
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, cast

MAX_BODY_BYTES = 64 * 1024
PERCENTS = (25, 50, 100)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `key` is its idempotency key, or empty; `body` is None if it is no JSON object."""

    method: str
    path: tuple[str, ...]
    key: str
    body: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request came to. `repeated` is true if the same key had been answered before."""

    status: int
    body: Json
    repeated: bool = False


def _refused(status: int, error: str, message: str) -> Answer:
    return Answer(status=status, body={"error": error, "message": message})


class OrderBook:
    """Orders, refunds and tickets. Not for several threads at once: `Desk` holds the lock."""

    def __init__(self, shops: Mapping[str, Json]) -> None:
        self._shops = shops
        self._refunds: dict[tuple[str, str], int] = {}
        self._answers: dict[str, tuple[Request, Answer]] = {}
        self._tickets = 0

    def recall(self, request: Request, answer: Answer) -> None:
        """Take over an answer that was given before a restart."""
        if answer.status == HTTPStatus.CREATED and not answer.repeated:
            self._keep(request, answer)

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        match request.method, request.path:
            case "GET", ("healthz",):
                return Answer(status=HTTPStatus.OK, body={"status": "ok"})
            case "GET", (shop, "orders", order):
                return self._order(shop, order)
            case "GET", (shop, "policies", topic):
                return self._policy(shop, topic)
            case "POST", (shop, "orders", order, "refunds"):
                return self._refund(shop, order, request)
            case "POST", ("helpdesk", "tickets"):
                return self._ticket(request)
            case _:
                return _refused(404, "not_found", "There is nothing at this address.")

    def _order(self, shop: str, order: str) -> Answer:
        found = self._shops.get(shop, {}).get("orders", {}).get(order)
        if found is None:
            return _refused(404, "order_not_found", f"Shop {shop} has no order {order}.")
        return Answer(status=HTTPStatus.OK, body=self._shown(shop, order, found))

    def _shown(self, shop: str, order: str, found: Json) -> Json:
        policy = self._shops[shop]
        total = sum(item["price_cents"] * item["quantity"] for item in found["items"])
        days: int | None = found["delivered_days_ago"]
        refunded = self._refunds.get((shop, order), 0)
        within_window = days is not None and days <= policy["return_window_days"]
        within_limit = total <= policy["automatic_refund_limit_cents"]
        automatic = within_window and within_limit and refunded == 0
        return {
            "order": order,
            "customer": found["customer"],
            "status": found["status"],
            "delivered_on": None if days is None else str((datetime.now(UTC) - timedelta(days=days)).date()),
            "days_since_delivery": days,
            "items": found["items"],
            "total_cents": total,
            "refunded_cents": refunded,
            "currency": policy["currency"],
            "within_return_window": within_window,
            "within_refund_limit": within_limit,
            "refund_decision": "automatic_refund" if automatic else "person_decides",
        }

    def _policy(self, shop: str, topic: str) -> Answer:
        text = self._shops.get(shop, {}).get("policies", {}).get(topic)
        if text is None:
            return _refused(404, "policy_not_found", f"Shop {shop} has no policy on {topic}.")
        return Answer(status=HTTPStatus.OK, body={"topic": topic, "policy": text})

    def _refund(self, shop: str, order: str, request: Request) -> Answer:
        if not request.key:
            return _refused(400, "no_idempotency_key", "A refund needs the header Idempotency-Key.")
        if request.key in self._answers:
            first, answer = self._answers[request.key]
            if first != request:
                return _refused(409, "idempotency_key_reused", "This key came with another request before.")
            return Answer(status=answer.status, body=answer.body, repeated=True)
        shown = self._order(shop, order)
        if shown.status != HTTPStatus.OK:
            return shown
        percent = _percent(request.body)
        if percent is None:
            return _refused(
                422, "bad_percent", f"`percent` has to be one of {', '.join(map(str, PERCENTS))}."
            )
        if shown.body["refunded_cents"]:
            return _refused(409, "already_refunded", "This order has been refunded.")
        if shown.body["refund_decision"] != "automatic_refund":
            return _refused(
                422, "person_decides", "This refund needs a person: see the order's refund_decision."
            )
        body: Json = {
            "refund": f"R-{len(self._refunds) + 1:04}",
            "order": order,
            "refunded_cents": shown.body["total_cents"] * percent // 100,
            "currency": shown.body["currency"],
        }
        return self._keep(request, Answer(status=HTTPStatus.CREATED, body=body))

    def _ticket(self, request: Request) -> Answer:
        if request.body is None:
            return _refused(400, "not_an_object", "A ticket has to be a JSON object.")
        return self._keep(
            request, Answer(status=HTTPStatus.CREATED, body={"ticket": f"T-{self._tickets + 1:04}"})
        )

    def _keep(self, request: Request, answer: Answer) -> Answer:
        match request.path:
            case (shop, "orders", order, "refunds"):
                self._refunds[shop, order] = answer.body["refunded_cents"]
                self._answers[request.key] = request, answer
            case _:
                self._tickets += 1
        return answer


def _percent(body: Json | None) -> int | None:
    value = (body or {}).get("percent")
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and value in PERCENTS else None


class Desk:
    """An order book with its ledger, for many threads. An answer is in the ledger before it is given."""

    def __init__(self, *, book: OrderBook, ledger: Path) -> None:
        self._book = book
        self._lock = threading.Lock()
        if ledger.exists():
            for line in ledger.read_text(encoding="utf-8").splitlines():
                self._book.recall(*_entry(json.loads(line)))
        self._ledger = ledger.open("a", encoding="utf-8")

    def answer(self, request: Request) -> Answer:
        """Answer one request and write it down."""
        with self._lock:
            answer = self._book.answer(request)
            if request.path != ("healthz",):
                self._ledger.write(_line(request, answer))
                self._ledger.flush()
                os.fsync(self._ledger.fileno())
            return answer

    def close(self) -> None:
        """Close the ledger."""
        with self._lock:
            self._ledger.close()


def _line(request: Request, answer: Answer) -> str:
    entry = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "method": request.method,
        "path": "/" + "/".join(request.path),
        "idempotency_key": request.key,
        "request": request.body,
        "status": answer.status,
        "response": answer.body,
        "repeated": answer.repeated,
    }
    return json.dumps(entry, ensure_ascii=False) + "\n"


def _entry(entry: Json) -> tuple[Request, Answer]:
    path = tuple(entry["path"].strip("/").split("/"))
    request = Request(method=entry["method"], path=path, key=entry["idempotency_key"], body=entry["request"])
    return request, Answer(status=entry["status"], body=entry["response"], repeated=entry["repeated"])


class Handler(BaseHTTPRequestHandler):
    """HTTP on one connection."""

    desk: Desk
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer a GET."""
        self._serve(body=None)

    def do_POST(self) -> None:
        """Answer a POST with a body of a known length."""
        length = self.headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(
                _refused(413, "bad_length", f"Send a body of at most {MAX_BODY_BYTES} bytes with its length.")
            )
            return
        self._serve(body=_object(self.rfile.read(int(length))))

    def _serve(self, *, body: Json | None) -> None:
        path = tuple(self.path.split("?", 1)[0].strip("/").split("/"))
        key = self.headers.get("idempotency-key", "")
        self._send(self.desk.answer(Request(method=self.command, path=path, key=key, body=body)))

    def _send(self, answer: Answer) -> None:
        data = json.dumps(answer.body, ensure_ascii=False).encode()
        self.send_response(answer.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parameter's name in http.server
        """Say nothing: the ledger says it all."""


def _object(data: bytes) -> Json | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return cast(Json, value) if isinstance(value, dict) else None


def main() -> int:
    """Serve until SIGTERM or SIGINT; the first line says where: `listening on 127.0.0.1:PORT`."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="The order system of the refund example.")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument(
        "--ledger", type=Path, default=Path("orders-ledger.jsonl"), help="one JSON line a request"
    )
    parser.add_argument(
        "--orders", type=Path, default=here / "orders.json", help="shops, policies and orders"
    )
    arguments = parser.parse_args()

    shops = json.loads(arguments.orders.read_text(encoding="utf-8"))["shops"]
    desk = Desk(book=OrderBook(shops), ledger=arguments.ledger)
    server = ThreadingHTTPServer(
        ("127.0.0.1", arguments.port), type("BoundHandler", (Handler,), {"desk": desk})
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        threading.Thread(
            target=server.shutdown
        ).start()  # shutdown waits for serve_forever, which runs this handler

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    sys.stdout.write(f"listening on 127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
        desk.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
