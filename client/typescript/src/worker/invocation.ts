/** A call from when it was invoked until its result is acknowledged. */

import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";

import {
  CancelInvocationReason,
  WorkerErrorKind,
  type InvocationProgressSchema,
  type InvocationResultSchema,
  type InvokeTool,
} from "../gen/jackline/v1/tool_worker_pb.js";
import type { Call } from "./options.js";
import { ToolFailure } from "./failures.js";
import { encoded, type Served, type Session } from "./session.js";
import { after } from "./waiting.js";

const LONGEST_MESSAGE = 2000; // Characters; the server uses no more.
const TIME_OVER = "its time was over";

export const REASONS: Readonly<Record<CancelInvocationReason, string>> = {
  [CancelInvocationReason.UNSPECIFIED]: "nobody waits for it",
  [CancelInvocationReason.ABORTED]: "the run was aborted, or has ended",
  [CancelInvocationReason.TIMED_OUT]: TIME_OVER,
  [CancelInvocationReason.UNKNOWN]: "the server has given it up",
};

const KINDS = {
  failed: WorkerErrorKind.FAILED,
  transient: WorkerErrorKind.TRANSIENT,
  uncertain: WorkerErrorKind.UNCERTAIN,
} as const;

type Result = MessageInitShape<typeof InvocationResultSchema>;
type Outcome = NonNullable<Result["outcome"]>;

export class Invocation {
  /** Undefined while it runs. */
  result: Result | undefined;
  /** The newest that was not sent. */
  progress: MessageInitShape<typeof InvocationProgressSchema> | undefined;
  progressAt = 0;

  readonly #session: Session;
  readonly #invoke: InvokeTool;
  readonly #served: Served | undefined;
  /** Aborted upon a cancel and when the time is over, whether the handler can be told so or not. */
  readonly #stopped = new AbortController();

  constructor(session: Session, invoke: InvokeTool) {
    this.#session = session;
    this.#invoke = invoke;
    this.#served = session.tools.get(invoke.tool);
  }

  stop(why: string): void {
    this.#stopped.abort(why);
  }

  /** Answers the invocation, whatever happens. */
  async run(): Promise<void> {
    const served = this.#served;
    if (!served) {
      const why = `this worker has no tool ${JSON.stringify(this.#invoke.tool)}`;
      this.#finish(this.#failure(WorkerErrorKind.NOT_STARTED, why));
      return;
    }
    const timeoutMs = this.#invoke.timeout ? durationMs(this.#invoke.timeout) : 0;
    const timer = after(timeoutMs, () => this.stop(TIME_OVER));
    // The server sends no more than there are places for. One may still be taken by a call of a session that was given up.
    const wanted = [served.places, this.#session.places];
    const taken = [];
    try {
      for (const places of wanted) {
        if (await places.take(this.#stopped.signal)) taken.push(places);
      }
      if (taken.length < wanted.length) {
        this.#finish(this.#failure(WorkerErrorKind.NOT_STARTED, String(this.#stopped.signal.reason)));
      } else {
        this.#finish(await this.#handled(served, new Date(Date.now() + timeoutMs)));
      }
    } finally {
      clearTimeout(timer);
      for (const places of taken) places.give();
    }
  }

  async #handled({ tool }: Served, deadline: Date): Promise<Outcome> {
    try {
      const args = JSON.parse(new TextDecoder().decode(this.#invoke.argumentsJson)) as JsonObject;
      const signal = tool.cancellable ? this.#stopped.signal : new AbortController().signal;
      return this.#returned(await tool.handle(args, this.#call(deadline, signal)));
    } catch (error) {
      if (error instanceof ToolFailure) return this.#failure(KINDS[error.kind], error.message, error.retryAfterMs);
      if (tool.cancellable && this.#stopped.signal.aborted) {
        return this.#failure(WorkerErrorKind.CANCELLED, `stopped: ${String(this.#stopped.signal.reason)}`);
      }
      const where = `tool ${tool.name}, run ${this.#invoke.runId}, call key ${this.#invoke.callKey}`;
      this.#session.options.log(`jackline: a tool failed unexpectedly (${where}):`, error);
      const kind = error instanceof Error ? error.name : typeof error;
      return this.#failure(WorkerErrorKind.UNCERTAIN, `the tool failed unexpectedly (${kind})`);
    }
  }

  #call(deadline: Date, signal: AbortSignal): Call {
    const { tool, callKey, attempt, runId, stepId, subject, traceparent } = this.#invoke;
    const progress = (text: string, fraction?: number): void => this.#report(text, fraction);
    return { tool, callKey, attempt, runId, stepId, subject, traceparent, deadline, signal, progress };
  }

  #returned(value: unknown): Outcome {
    if (typeof value === "string" && !this.#served?.tool.output) {
      const size = Buffer.byteLength(value);
      return size > this.#session.largest ? this.#tooLarge(size) : { case: "text", value };
    }
    let data;
    try {
      data = encoded(value);
    } catch (error) {
      this.#session.options.log(`jackline: what ${this.#invoke.tool} returned can't be sent:`, error);
      return { case: "text", value: "The tool has done its work, but what it returned can't be written as JSON." };
    }
    return data.length > this.#session.largest ? this.#tooLarge(data.length) : { case: "json", value: data };
  }

  #tooLarge(size: number): Outcome {
    const { largest } = this.#session;
    const words = `The tool has done its work, but its result is too large: ${size} bytes, and ${largest} are allowed.`;
    return { case: "text", value: shortened(words, largest) };
  }

  #failure(kind: WorkerErrorKind, words: string, retryAfterMs?: number): Outcome {
    const message = shortened(words, this.#session.largest);
    const retryAfter = retryAfterMs === undefined ? {} : { retryAfter: durationFromMs(retryAfterMs) };
    return { case: "error", value: { kind, message, ...retryAfter } };
  }

  get #open(): boolean {
    return this.#session.calls.get(this.#invoke.invocation) === this && this.result === undefined;
  }

  /** Hands the result over, unless the session has given the invocation up. */
  #finish(outcome: Outcome): void {
    if (!this.#open) return;
    this.result = { invocation: this.#invoke.invocation, outcome };
    this.progress = undefined;
    this.#session.outbox?.add(this);
  }

  /** Keeps the newest progress for when it may be sent. */
  #report(text: string, fraction: number | undefined): void {
    if (!this.#open) return;
    this.progress = {
      invocation: this.#invoke.invocation,
      text,
      ...(fraction === undefined ? {} : { fraction }),
    };
    this.#session.outbox?.move(this);
  }
}

/** Cuts a text at a character's end, to as many bytes and to the characters that the server uses. */
function shortened(text: string, bytes: number): string {
  let found = "";
  let size = 0;
  let count = 0;
  for (const char of text) {
    size += Buffer.byteLength(char);
    if (count === LONGEST_MESSAGE || size > bytes) return found;
    found += char;
    count += 1;
  }
  return found;
}
