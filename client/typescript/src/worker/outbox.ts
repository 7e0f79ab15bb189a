/** What one stream has to send, in which order, and when it is half-closed. */

import type { Invocation } from "./invocation.js";
import type { Message, Session } from "./session.js";
import { Bell } from "./waiting.js";

const PROGRESS_EVERY_MS = 100;

export class Outbox {
  heartbeatMs = 0;
  /** The server has said that it invokes nothing more. */
  drained = false;
  /** Everything is acknowledged, and the stream half-closed. */
  closed = false;

  readonly #session: Session;
  readonly #bell = new Bell();
  readonly #results: Invocation[] = [];
  /** Those with progress to send. */
  readonly #moved = new Set<Invocation>();
  #begun = false;
  #stopped = false;
  #drainSent: boolean;
  #lastSent = 0;

  constructor(session: Session) {
    this.#session = session;
    this.#drainSent = session.leaving; // The register says it.
  }

  /** The stream is welcomed: what is finished goes out. */
  begin(heartbeatMs: number): void {
    this.heartbeatMs = heartbeatMs;
    this.#lastSent = Date.now();
    for (const call of this.#session.calls.values()) {
      if (call.result) this.#results.push(call);
      else if (call.progress) this.#moved.add(call);
    }
    this.#begun = true;
    this.ring();
  }

  /** Something has changed. */
  ring(): void {
    this.#bell.ring();
  }

  /** The stream is over: nothing more is sent. */
  stop(): void {
    this.#stopped = true;
    this.ring();
  }

  /** A result is there. */
  add(call: Invocation): void {
    this.#moved.delete(call);
    this.#results.push(call);
    this.ring();
  }

  /** An invocation has come further. */
  move(call: Invocation): void {
    this.#moved.add(call);
    this.ring();
  }

  /** The messages of the stream, the register first; their end is the half-close. */
  async *messages(register: Message): AsyncGenerator<Message> {
    yield register;
    while (!this.#stopped) {
      const now = Date.now();
      const message = this.#begun ? this.#next(now) : undefined;
      if (message) {
        this.#lastSent = now;
        yield message;
      } else if (this.closed) {
        return;
      } else {
        await this.#bell.wait(this.#begun ? this.#pause(now) : Infinity);
      }
    }
  }

  #next(now: number): Message | undefined {
    if (this.#session.leaving && !this.#drainSent) {
      this.#drainSent = true;
      return { message: { case: "drain", value: {} } };
    }
    const finished = this.#results.shift();
    if (finished?.result) return { message: { case: "result", value: finished.result } };
    if (this.drained && this.#session.calls.size === 0) {
      this.closed = true;
      return undefined;
    }
    for (const call of this.#moved) {
      if (call.progressAt + PROGRESS_EVERY_MS > now) continue;
      this.#moved.delete(call);
      const progress = call.progress;
      call.progress = undefined;
      call.progressAt = now;
      if (progress) return { message: { case: "progress", value: progress } };
    }
    if (now - this.#lastSent >= this.heartbeatMs) return { message: { case: "heartbeat", value: {} } };
    return undefined;
  }

  /** How long there will be nothing to send. */
  #pause(now: number): number {
    let due = this.#lastSent + this.heartbeatMs;
    for (const call of this.#moved) due = Math.min(due, call.progressAt + PROGRESS_EVERY_MS);
    return Math.max(due - now, 0);
  }
}
