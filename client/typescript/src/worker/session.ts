/** One session with the server, over as many streams as it takes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { Effect } from "../gen/jackline/v1/run_pb.js";
import {
  ToolWorkerService,
  type ConnectRequestSchema,
  type ConnectResponse,
  type WorkerWelcome,
} from "../gen/jackline/v1/tool_worker_pb.js";
import type { Tool, WorkerOptions } from "./options.js";
import { endingOf, type Ending } from "./failures.js";
import { Invocation, REASONS } from "./invocation.js";
import { Outbox } from "./outbox.js";
import { Bell, Places } from "./waiting.js";

export type Message = MessageInitShape<typeof ConnectRequestSchema>;

const WELCOME_WITHIN_MS = 10_000;
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;
const SILENT_BEATS = 3;

const EFFECTS = { read: Effect.READ, idempotent: Effect.IDEMPOTENT, write: Effect.WRITE } as const;

/** A tool with the places for its calls. */
export interface Served {
  readonly tool: Tool;
  readonly places: Places;
}

export class Session {
  /** Those without an acknowledgement, running or finished. */
  readonly calls = new Map<string, Invocation>();
  readonly tools: ReadonlyMap<string, Served>;
  readonly places: Places;
  /** Of the stream that was welcomed. */
  outbox: Outbox | undefined;
  leaving = false;
  largest = 0;

  #token = "";
  #graceMs = 0;
  /** A register has had no answer: its stream may still come to live at the server. */
  #unanswered = false;
  readonly #left = new Bell();

  constructor(readonly options: Required<WorkerOptions>) {
    this.places = new Places(options.maxParallel);
    const most = (tool: Tool): number => Math.min(tool.maxParallel ?? options.maxParallel, options.maxParallel);
    this.tools = new Map(options.tools.map((tool) => [tool.name, { tool, places: new Places(most(tool)) }]));
  }

  /** Begins the drain. */
  leave(): void {
    if (this.leaving) return;
    this.leaving = true;
    this.options.log(`jackline: the worker takes no more calls and leaves; ${this.calls.size} are open`);
    this.#left.ring();
    this.outbox?.ring();
  }

  /** Connects until the worker has left, or is refused. */
  async run(): Promise<void> {
    let wait = FIRST_WAIT_MS;
    let brokenAt = 0;
    for (;;) {
      if (this.leaving) {
        if (this.#token === "") return;
        if (brokenAt && Date.now() - brokenAt > this.#graceMs) return this.#cutOff();
      }
      const { outbox, ending } = await this.#connect();
      if (outbox) {
        wait = FIRST_WAIT_MS;
        brokenAt = Date.now();
        if (outbox.closed) {
          this.#token = "";
          if (this.leaving) return;
          await this.#left.wait(Math.random() * wait); // The server was leaving; its other workers come back as well.
          continue;
        }
      }
      if (ending.refused && !(ending.taken && this.#lateRegister())) {
        this.#giveUp("the server refuses the worker");
        throw ending.refused;
      }
      const pause = Math.max(Math.random() * wait, ending.notBeforeMs);
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
      const told = `jackline: the stream of the worker broke; again in ${Math.round(pause)} ms:`;
      this.options.log(told, ending.error);
      await this.#left.wait(pause);
    }
  }

  /** Gives an invocation up, or all: stops what runs, and drops what is finished. */
  #giveUp(why: string): void {
    for (const call of this.calls.values()) call.stop(why);
    this.calls.clear();
  }

  #cutOff(): void {
    const open = this.calls.size;
    this.#giveUp("the server can't be reached");
    if (open > 0) {
      throw new Error(`left with ${open} calls that the server has no result of: it could not be reached`);
    }
  }

  /** True if a stream of this worker may have resumed the session late; it can have done so once. */
  #lateRegister(): boolean {
    const late = this.#unanswered;
    this.#unanswered = false;
    return late;
  }

  /** Holds one stream from its beginning to its end. There is no outbox if it was never welcomed. */
  async #connect(): Promise<{ outbox: Outbox | undefined; ending: Ending }> {
    const { baseUrl, nodeOptions } = this.options;
    // Each stream has a connection of its own: one that has gone silent would take the next stream as well.
    const connection = new Http2SessionManager(baseUrl, {}, nodeOptions);
    const transport = createGrpcTransport({
      baseUrl,
      sessionManager: connection,
      interceptors: [this.#bearer],
    });
    const cut = new AbortController();
    let watchdog = setTimeout(() => cut.abort(new Error("the server does not answer")), WELCOME_WITHIN_MS);
    const outbox = new Outbox(this);
    let welcomed = false;
    try {
      const said = createClient(ToolWorkerService, transport).connect(outbox.messages(this.#register()), {
        signal: cut.signal,
      });
      for await (const message of said) {
        if (!welcomed) {
          if (message.message.case !== "welcome") throw new Error("the server's first message is no welcome");
          this.#welcomed(message.message.value, outbox);
          welcomed = true;
          clearTimeout(watchdog);
          const silence = SILENT_BEATS * outbox.heartbeatMs;
          const cause = new Error(`nothing was heard of the server for ${silence} ms`);
          watchdog = setTimeout(() => cut.abort(cause), silence);
          continue;
        }
        watchdog.refresh();
        this.#take(message, outbox);
      }
      return ended(welcomed, outbox, { error: new Error("the server ended the stream"), taken: false, notBeforeMs: 0 });
    } catch (error) {
      const ending = endingOf(error);
      return ended(welcomed, outbox, cut.signal.aborted ? { ...ending, error: cut.signal.reason } : ending);
    } finally {
      this.outbox = undefined;
      clearTimeout(watchdog);
      outbox.stop();
      cut.abort();
      connection.abort();
    }
  }

  readonly #bearer: Interceptor = (next) => async (request) => {
    const { token } = this.options;
    request.header.set("authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
    return next(request);
  };

  #register(): Message {
    this.#unanswered = true;
    return {
      message: {
        case: "register",
        value: {
          pool: this.options.pool,
          worker: this.options.name,
          session: this.#token,
          tools: this.options.tools.map((tool) => ({
            name: tool.name,
            description: tool.description,
            parametersJson: encoded(tool.parameters),
            outputSchemaJson: tool.output ? encoded(tool.output) : new Uint8Array(),
            effect: EFFECTS[tool.effect ?? "write"],
            cancellable: tool.cancellable ?? false,
            ...(tool.maxParallel === undefined ? {} : { maxParallel: tool.maxParallel }),
          })),
          maxParallel: this.options.maxParallel,
          invocations: [...this.calls.keys()],
          draining: this.leaving,
        },
      },
    };
  }

  /** Takes the answer to register: the session goes on, or a new one begins. */
  #welcomed(welcome: WorkerWelcome, outbox: Outbox): void {
    if (!welcome.resumed) this.#giveUp("the server has given the worker up");
    const { log, name, pool } = this.options;
    log(`jackline: the worker ${name} ${welcome.resumed ? "is back in" : "serves"} pool ${pool}`);
    this.#unanswered = false;
    this.#token = welcome.session;
    this.#graceMs = welcome.resumeGrace ? durationMs(welcome.resumeGrace) : 0;
    this.largest = Number(welcome.maxResultBytes);
    this.outbox = outbox;
    outbox.begin(welcome.heartbeat ? durationMs(welcome.heartbeat) : 0);
  }

  /** Does what the server says. */
  #take({ message }: ConnectResponse, outbox: Outbox): void {
    switch (message.case) {
      case "invoke":
        if (!this.calls.has(message.value.invocation)) {
          const call = new Invocation(this, message.value);
          this.calls.set(message.value.invocation, call);
          void call.run();
        }
        break;
      case "cancel":
        this.calls.get(message.value.invocation)?.stop(REASONS[message.value.reason]);
        break;
      case "acknowledged":
        this.calls.delete(message.value.invocation);
        outbox.ring();
        break;
      case "drain":
        outbox.drained = true;
        outbox.ring();
        break;
      default: // A heartbeat, or what this version does not know.
    }
  }
}

function ended(welcomed: boolean, outbox: Outbox, ending: Ending): { outbox: Outbox | undefined; ending: Ending } {
  return { outbox: welcomed ? outbox : undefined, ending };
}

/** A JSON value as bytes. */
export function encoded(value: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(value ?? null));
}
