/** What somebody who has tools says of them, and what a tool is told. */

import type { SecureClientSessionOptions } from "node:http2";

import type { JsonObject } from "@bufbuild/protobuf";

/**
 * What running a tool may change, and so whether a call whose answer was lost may be made again: `read` changes nothing,
 * `idempotent` counts once for each `Call.callKey`, `write` changes something each time and is never repeated.
 */
export type Effect = "read" | "idempotent" | "write";

/** A tool that a worker serves. */
export interface Tool<Arguments = JsonObject> {
  /** Its name in the pool: a letter, then letters, digits, `_`, `-` or `.`, 64 at most. */
  readonly name: string;
  /** What it does, in words for a model. */
  readonly description: string;
  /** The JSON Schema of its arguments, of type `object`. */
  readonly parameters: JsonObject;
  /** The JSON Schema of what it returns: a result that does not fit is a failure. Left out: anything. */
  readonly output?: JsonObject;
  /** What running it may change. Left out: `write`. */
  readonly effect?: Effect;
  /** How many calls of it run at a time. Left out: as many as the worker serves. */
  readonly maxParallel?: number;
  /** It ends soon after `Call.signal` is aborted, which is never aborted otherwise: such a tool runs to its end. */
  readonly cancellable?: boolean;
  /**
   * Runs it. A string is sent as text, unless the tool has an `output`; anything else as JSON. It fails with a
   * ToolFailure; anything else that is thrown counts as `uncertain`, and only its class is sent: the rest is logged.
   */
  handle(args: Arguments, call: Call): unknown;
}

/** One attempt at a tool call. */
export interface Call {
  /** The name of the tool. */
  readonly tool: string;
  /**
   * The idempotency key: the same for every attempt at this call, and for no other call. What may be done only once is
   * to be keyed by it.
   */
  readonly callKey: string;
  /** The attempt, from 1. */
  readonly attempt: number;
  /** The run that calls. */
  readonly runId: string;
  /** The step of its workflow that stands for the tool. */
  readonly stepId: string;
  /** On whose behalf the run works, as given when it was started; undefined if nobody was named. */
  readonly subject: JsonObject | undefined;
  /** The W3C trace context. */
  readonly traceparent: string;
  /** When nobody waits any more. */
  readonly deadline: Date;
  /** Aborted when nobody waits any more or the time is over, if the tool is `cancellable`. */
  readonly signal: AbortSignal;
  /**
   * Says what the call is doing to whoever watches the run, and how much of it is done, from 0 to 1. Only the newest
   * counts; about ten a second are sent.
   */
  progress(text: string, fraction?: number): void;
}

/** What a worker serves, and where. */
export interface WorkerOptions {
  /** The server, such as `https://jackline.example`; `http://` for one on the same machine. */
  readonly baseUrl: string;
  /** The token, with the scope `tools:serve`. A function is asked anew for each connection. */
  readonly token: string | (() => string | Promise<string>);
  /** The pool of the operator's config. */
  readonly pool: string;
  /** The tools, each name once. What a tool makes of its arguments is its own affair, hence `any`. */
  readonly tools: readonly Tool<any>[];
  /** What people know the worker by; it need not be unique. Left out: the host and the process. */
  readonly name?: string;
  /** How many calls run at a time, of all tools together. Left out: 8. */
  readonly maxParallel?: number;
  /** For the connection, such as `ca`, `cert` and `key`. */
  readonly nodeOptions?: SecureClientSessionOptions;
  /**
   * Is told when the worker serves, breaks off, comes back and leaves, and, with the error, of what is not sent. Left
   * out: console.error.
   */
  readonly log?: (message: string, error?: unknown) => void;
}
