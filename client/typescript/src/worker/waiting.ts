/** Waiting for an event or a time, and for a place among those that may run at once. */

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A timer that takes any time. */
export function after(ms: number, then: () => void): NodeJS.Timeout {
  return setTimeout(then, Math.min(ms, LONGEST_TIMER_MS));
}

/** Wakes the one that waits; rung while nobody does, the next wait is over at once. */
export class Bell {
  #rung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Waits until it rings, but not longer than so many milliseconds. */
  async wait(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = after(ms, resolve);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = undefined;
    }
    this.#rung = false;
  }
}

/** Places of which each is taken by one at a time. */
export class Places {
  readonly #waiting = new Set<() => void>();

  constructor(private free: number) {}

  /** Waits for a place and takes it; false if the signal was aborted first. */
  async take(signal: AbortSignal): Promise<boolean> {
    while (this.free === 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          signal.removeEventListener("abort", wake);
          resolve();
        };
        this.#waiting.add(wake);
        signal.addEventListener("abort", wake);
      });
    }
    if (signal.aborted) return false;
    this.free -= 1;
    return true;
  }

  /** Gives a place back. */
  give(): void {
    this.free += 1;
    for (const wake of this.#waiting) wake();
  }
}
