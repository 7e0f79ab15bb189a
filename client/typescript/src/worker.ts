/**
 * Serves tools to the runs of a Jackline server, from a process of yours and over a connection that your process opens.
 *
 *     const worker = new Worker({
 *       baseUrl: "https://jackline.example",
 *       token: process.env["JACKLINE_TOKEN"]!,
 *       pool: "support",
 *       tools: [{
 *         name: "seats_left",
 *         description: "How many seats a flight has left.",
 *         parameters: { type: "object", properties: { flight: { type: "string" } } },
 *         effect: "read",
 *         cancellable: true,
 *         handle: async ({ flight }, call) => ({ left: await seatsLeft(flight, call.signal) }),
 *       }],
 *     });
 *     process.once("SIGTERM", () => worker.drain());
 *     await worker.run();
 *
 * A worker keeps its connection up: it answers heartbeats, comes back after a break with the same session, and delivers
 * a result that was finished meanwhile, once. The pool has to be named in the server's config, and the token needs the
 * scope `tools:serve`. The rules that it follows stand in proto/jackline/v1/tool_worker.proto.
 *
 * A handler that keeps the event loop busy for long keeps the heartbeat from being sent: give such work to a thread of
 * `node:worker_threads`.
 */

import { hostname } from "node:os";

import type { WorkerOptions } from "./worker/options.js";
import { Session } from "./worker/session.js";

export type { Call, Effect, Tool, WorkerOptions } from "./worker/options.js";
export { RefusedError, ToolFailure, type FailureKind } from "./worker/failures.js";

const PARALLEL = 8;

/** A worker; `run` it once. */
export class Worker {
  readonly #session: Session;

  /** Throws a TypeError if the options can't be used. Nothing is opened yet. */
  constructor(options: WorkerOptions) {
    check(options);
    this.#session = new Session({
      name: `${hostname()}:${process.pid}`,
      maxParallel: PARALLEL,
      nodeOptions: {},
      log: (...told) => console.error(...told),
      ...options,
    });
  }

  /**
   * Serves until the worker has drained: it connects again by itself, for as long as that may help. Rejects with a
   * RefusedError when the server refuses the worker, and with another error when results could not be delivered before
   * the server had given the worker up. Handlers of tools that are not cancellable may then still run.
   */
  run(): Promise<void> {
    return this.#session.run();
  }

  /** Takes no further calls and finishes those in flight; `run` ends when the server has every result. */
  drain(): void {
    this.#session.leave();
  }
}

function check(options: WorkerOptions): void {
  if (!options.pool) throw new TypeError("pool is empty: name the pool of the server's config");
  if (options.tools.length === 0) throw new TypeError("tools is empty: a worker serves at least one tool");
  atLeastOne("maxParallel", options.maxParallel);
  const names = new Set<string>();
  for (const [index, tool] of options.tools.entries()) {
    const place = `tools[${index}] (${JSON.stringify(tool.name)})`;
    if (names.has(tool.name)) throw new TypeError(`${place}: another tool has this name`);
    names.add(tool.name);
    atLeastOne(`${place}.maxParallel`, tool.maxParallel);
  }
}

function atLeastOne(place: string, value: number | undefined): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= 1)) {
    throw new TypeError(`${place} is ${value}: it has to be a whole number of at least 1`);
  }
}
