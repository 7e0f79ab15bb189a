/**
 * Takes one run through its life with a Jackline server: starts it, watches it, cuts the stream, steers, resumes where
 * the stream was cut, aborts, and reads why a further command is refused.
 *
 * Prints one JSON object a step. JACKLINE_ADDRESS names the server, 127.0.0.1:50051 unless set; JACKLINE_TOKEN is
 * required. The workflow and its input may be given as arguments.
 */

import { randomUUID } from "node:crypto";

import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { ErrorInfoSchema, type ErrorInfo } from "./gen/google/rpc/error_details_pb.js";
import { CommandDisposition, ReceiptStage } from "./gen/jackline/v1/control_pb.js";
import type { StepEvent } from "./gen/jackline/v1/event_pb.js";
import { RunState, StopReason } from "./gen/jackline/v1/run_pb.js";
import { RunService, StartDisposition } from "./gen/jackline/v1/run_service_pb.js";

const CALL = { timeoutMs: 15_000 };
const WATCH_MS = 120_000;
const INPUT = { message: "My lamp is broken, please refund it.", order_id: "A-1001", shop: "eu" };

type Runs = Client<typeof RunService>;
type Fact = NonNullable<StepEvent["fact"]["case"]>;

async function example(workflow: string, input: string): Promise<void> {
  const runs = connect();

  // The request id makes it safe to send this again when no answer came.
  const started = await runs.startRun(
    {
      source: { case: "workflow", value: workflow },
      inputValue: { case: "inputJson", value: new TextEncoder().encode(input) },
      requestId: `example-${randomUUID()}`,
    },
    CALL,
  );
  const runId = started.run?.runId ?? "";
  show("started", { run_id: runId, disposition: StartDisposition[started.disposition] });

  const watcher = new Watcher(runs, runId);
  const first = await watcher.follow("modelCallStarted");
  show("cut", { sequences: first.sequences, sent_through: Number(watcher.position) });

  const steered = await runs.control(
    {
      runId,
      commandId: `example-${randomUUID()}`,
      command: { case: "steer", value: { text: "The customer is a regular: be generous." } },
    },
    CALL,
  );
  show("steered", { stage: steered.receipt && ReceiptStage[steered.receipt.stage] });

  const after = Number(watcher.position);
  const second = await watcher.follow("steered");
  show("resumed", {
    after_sequence: after,
    sequences: second.sequences,
    sent_through: Number(watcher.position),
  });

  const aborted = await runs.control(
    {
      runId,
      reason: "The example is over.",
      wait: ReceiptStage.SETTLED,
      command: { case: "abort", value: { skipRoutes: true } },
    },
    CALL,
  );
  show("aborted", {
    disposition: aborted.receipt && CommandDisposition[aborted.receipt.disposition],
    reached: aborted.reached,
  });

  const last = await watcher.follow("runFinished");
  if (last.event.fact.case !== "runFinished") throw new Error("not the event that was waited for");
  show("finished", {
    sequences: last.sequences,
    state: RunState[last.event.fact.value.state],
    stop_reason: StopReason[last.event.fact.value.stopReason],
  });

  // Errors are told apart by their reason, never by their text.
  try {
    await runs.control({ runId, command: { case: "pause", value: {} } }, CALL);
  } catch (error) {
    const { code, info } = explain(error);
    if (!info) throw error;
    show("refused", { code, reason: info.reason, metadata: info.metadata });
    return;
  }
  throw new Error("a pause of a finished run was not refused");
}

/** Reads the events of one run over as many streams as it takes. */
class Watcher {
  /** Every event up to this one has been taken: where the next stream starts. */
  position = 0n;

  constructor(
    private readonly runs: Runs,
    private readonly runId: string,
  ) {}

  /**
   * Reads on from the position until an event holds the wanted fact, and cuts the stream there. Returns the sequences
   * that it took and that event. A stream that ends before the run has throws; it is never an end.
   */
  async follow(wanted: Fact): Promise<{ sequences: number[]; event: StepEvent }> {
    const cut = new AbortController();
    // Not timeoutMs: its timer outlives a stream that is cut, and keeps the process from ending.
    const signal = AbortSignal.any([cut.signal, AbortSignal.timeout(WATCH_MS)]);
    const request = { runId: this.runId, afterSequence: this.position };
    const sequences: number[] = [];
    try {
      for await (const frame of this.runs.streamProgress(request, { signal })) {
        let found: StepEvent | undefined;
        for (const event of frame.events) {
          if (event.sequence !== this.position + 1n) {
            throw new Error(`event ${event.sequence} follows event ${this.position}`);
          }
          this.position = event.sequence;
          sequences.push(Number(event.sequence));
          if (event.fact.case === wanted) found ??= event;
        }
        if (frame.sentThrough !== this.position) {
          throw new Error(`sent through ${frame.sentThrough}, and event ${this.position} was the last`);
        }
        if (found) {
          cut.abort();
          return { sequences, event: found };
        }
      }
    } finally {
      cut.abort();
    }
    throw new Error(`the run ended at event ${this.position} without what was waited for`);
  }
}

/** Connects in plaintext, for a server on this machine. Elsewhere the token needs TLS: an address with https. */
function connect(): Runs {
  const token = process.env["JACKLINE_TOKEN"];
  if (!token) {
    throw new Error("JACKLINE_TOKEN is not set; `jackline token print` shows the token of a server on this machine");
  }
  const bearer: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const address = process.env["JACKLINE_ADDRESS"] || "127.0.0.1:50051";
  return createClient(RunService, createGrpcTransport({ baseUrl: `http://${address}`, interceptors: [bearer] }));
}

/** The status code of an error and the server's reason; without a reason, undefined. */
function explain(error: unknown): { code: string; info: ErrorInfo | undefined } {
  if (!(error instanceof ConnectError)) return { code: "", info: undefined };
  const code = Code[error.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  return { code, info: error.findDetails(ErrorInfoSchema).find((info) => info.domain === "jackline") };
}

function show(step: string, values: Record<string, unknown>): void {
  console.log(JSON.stringify({ step, ...values }));
}

const [workflow = "refunds", input = JSON.stringify(INPUT)] = process.argv.slice(2);
try {
  await example(workflow, input);
} catch (error) {
  const { code, info } = explain(error);
  show("failed", { code, reason: info?.reason ?? "", message: String(error) });
  process.exitCode = 1;
}
