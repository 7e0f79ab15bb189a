/**
 * Serves three tools to a Jackline server as a worker: `seats_left`, which reads, `reserve_seat`, which counts once
 * however often it is called with one call key, and `print_ticket`, which prints anew each time.
 *
 * What it did stands in its own ledger, one JSON object a line. Environment:
 *
 *     JACKLINE_ADDRESS  the server; 127.0.0.1:50051 unless set
 *     JACKLINE_TOKEN    a token with the scope `tools:serve`; required
 *     SEATS_POOL        the pool; seats unless set
 *     SEATS_LEDGER      the ledger; seats.jsonl unless set
 *     SEATS_WORKER      what the worker is called; the host and the process unless set
 *     SEATS_HOLD        a file: while it exists, no call that has begun ends. To see what a kill or a cancel does.
 *
 * SIGTERM and SIGINT make it finish what it has begun; a second one ends it at once.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { ToolFailure, Worker, type Call, type Tool } from "./worker.js";

const SEATS_OF_A_PLANE = 30;
const HOLD_EVERY_MS = 20;

interface Looking {
  flight: string;
}

interface Place {
  flight: string;
  seat: string;
}

/** A line of the ledger. */
interface Entry {
  tool: string;
  call_key: string;
  attempt: number;
  worker: string;
  flight: string;
  seat?: string;
}

const ledger = process.env["SEATS_LEDGER"] || "seats.jsonl";
const hold = process.env["SEATS_HOLD"];
const name = process.env["SEATS_WORKER"] ?? "";

const flight = { type: "string", description: "Such as JL42." };
const seat = { type: "string", description: "Such as 12A." };

const seatsLeft: Tool<Looking> = {
  name: "seats_left",
  description: "How many seats a flight has left.",
  parameters: { type: "object", properties: { flight }, required: ["flight"] },
  effect: "read",
  cancellable: true,
  async handle(asked, call) {
    flies(asked.flight);
    const taken = entries().filter((line) => line.tool === "reserve_seat" && line.flight === asked.flight).length;
    add(call, asked);
    await work(call);
    return { flight: asked.flight, left: SEATS_OF_A_PLANE - taken };
  },
};

/** Does its work once a call key: another attempt finds what the first one did. */
const reserveSeat: Tool<Place> = {
  name: "reserve_seat",
  description: "Reserves a seat of a flight.",
  parameters: { type: "object", properties: { flight, seat }, required: ["flight", "seat"] },
  effect: "idempotent",
  cancellable: true,
  async handle(wanted, call) {
    flies(wanted.flight);
    const reserved = entries().filter((line) => line.tool === "reserve_seat");
    if (!reserved.some((line) => line.call_key === call.callKey)) {
      if (reserved.some((line) => line.flight === wanted.flight && line.seat === wanted.seat)) {
        throw new ToolFailure(`seat ${wanted.seat} of ${wanted.flight} is taken`);
      }
      add(call, wanted);
    }
    await work(call);
    return { flight: wanted.flight, seat: wanted.seat, reservation: call.callKey };
  },
};

const printTicket: Tool<Place> = {
  name: "print_ticket",
  description: "Prints a ticket for a seat of a flight.",
  parameters: { type: "object", properties: { flight, seat }, required: ["flight", "seat"] },
  effect: "write",
  maxParallel: 1, // There is one printer.
  async handle(wanted, call) {
    flies(wanted.flight);
    add(call, wanted);
    await work(call);
    return `printed: ${wanted.flight}, seat ${wanted.seat}`;
  },
};

/** There are flights that do not go well, to see what failures look like. */
function flies(wanted: string): void {
  if (!/^JL[0-9]+$/.test(wanted)) throw new ToolFailure(`there is no flight ${JSON.stringify(wanted)}`);
  if (wanted === "JL503") throw new ToolFailure("the reservation system is busy", "transient", 200);
  // Nothing that anybody else may read:
  if (wanted === "JL500") throw new Error("login of seats with password `secret` failed");
}

/** Ends at once, unless it is held. */
async function work(call: Call): Promise<void> {
  call.progress("written down", 0.5);
  while (hold && existsSync(hold)) {
    await sleep(HOLD_EVERY_MS, undefined, { signal: call.signal });
    call.progress("held");
  }
}

function entries(): Entry[] {
  if (!existsSync(ledger)) return [];
  const lines = readFileSync(ledger, "utf8").split("\n").slice(0, -1); // A kill may have cut the last one.
  return lines.map((line) => JSON.parse(line) as Entry);
}

function add(call: Call, where: { flight: string; seat?: string }): void {
  const { flight, seat } = where;
  const line: Entry = {
    tool: call.tool,
    call_key: call.callKey,
    attempt: call.attempt,
    worker: name,
    flight,
    ...(seat === undefined ? {} : { seat }),
  };
  appendFileSync(ledger, `${JSON.stringify(line)}\n`, { mode: 0o600 });
}

async function serve(): Promise<void> {
  const token = process.env["JACKLINE_TOKEN"];
  if (!token) {
    throw new Error("JACKLINE_TOKEN is not set; `jackline token print` shows the token of a server on this machine");
  }
  const worker = new Worker({
    // Plaintext, for a server on this machine. Elsewhere the token needs TLS: an address with https.
    baseUrl: `http://${process.env["JACKLINE_ADDRESS"] || "127.0.0.1:50051"}`,
    token,
    pool: process.env["SEATS_POOL"] || "seats",
    tools: [seatsLeft, reserveSeat, printTicket],
    maxParallel: 4,
    ...(name ? { name } : {}),
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => worker.drain());
  await worker.run();
}

try {
  await serve();
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
}
