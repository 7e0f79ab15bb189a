/** How a tool fails, how a worker is refused, and what the end of a stream means. */

import { Code, ConnectError } from "@connectrpc/connect";
import { durationMs } from "@bufbuild/protobuf/wkt";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.js";

/**
 * What a failure means for another attempt. `failed`: the tool did not do what it was asked for, and would not the next
 * time. `transient`: it did not do it, and another attempt may succeed. `uncertain`: nobody knows whether it did it; of a
 * tool that writes, the call's outcome is unknown, of another it is the same as `transient`.
 */
export type FailureKind = "failed" | "transient" | "uncertain";

/** How a tool says that it failed. The message is read by a model: it holds no secret. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
  readonly kind: FailureKind;
  /** With `transient`: not before so many milliseconds. Undefined leaves the waiting to the workflow. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, kind: FailureKind = "failed", retryAfterMs?: number) {
    super(message);
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The server refuses the worker, and trying again does not help. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";

  constructor(
    /** The status of the stream, such as `PERMISSION_DENIED`. */
    readonly code: string,
    /** The server's, of proto/jackline/v1/error_reason.proto. Empty: it gave none. */
    readonly reason: string,
    /** What goes with the reason. */
    readonly metadata: Readonly<Record<string, string>>,
    /** What was refused, as `path: why`. */
    readonly fields: readonly string[],
    message: string,
  ) {
    const why = reason ? `${code}, ${reason}` : code;
    super([`jackline refuses the worker: ${why}`, message, ...fields].join("; "));
  }
}

/** How a stream ended, and what that means. */
export interface Ending {
  readonly error: unknown;
  /** Trying again does not help. */
  readonly refused?: RefusedError;
  /** Another stream has resumed the session. */
  readonly taken: boolean;
  readonly notBeforeMs: number;
}

const PASSING: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.Canceled,
  Code.Unknown,
  Code.Internal,
]);

/** Tells what the error means with which a stream ended. */
export function endingOf(thrown: unknown): Ending {
  const error = ConnectError.from(thrown);
  const notBeforeMs = error
    .findDetails(RetryInfoSchema)
    .reduce((most, info) => Math.max(most, info.retryDelay ? durationMs(info.retryDelay) : 0), 0);
  const found = { error, taken: error.code === Code.Aborted, notBeforeMs };
  if (PASSING.has(error.code)) return found;
  const info = error.findDetails(ErrorInfoSchema).find((one) => one.domain === "jackline");
  const fields = error
    .findDetails(BadRequestSchema)
    .flatMap((bad) => bad.fieldViolations.map((one) => `${one.field}: ${one.description}`));
  const code = Code[error.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  const refused = new RefusedError(code, info?.reason ?? "", info?.metadata ?? {}, fields, error.rawMessage);
  return { ...found, refused };
}
