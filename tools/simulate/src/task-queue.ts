/** A simulated process. It owns its timers and the answers to its calls, which end or wait with it. */
export type Process = {
  readonly name: string;
  alive: boolean;
  /** Time before which the code of the process does not run. */
  frozenUntilMs: number;
  /** Offset of its wall clock from virtual time. */
  clockOffsetMs: number;
};

/** Code that runs at a moment of virtual time. */
export type Task = {
  atMs: number;
  order: number;
  /** Undefined for the world outside all processes. */
  readonly owner: Process | undefined;
  readonly run: () => void;
  over: boolean;
};

/** Orders tasks by time, then by creation. A binary heap. */
export class TaskQueue {
  readonly #tasks: Task[] = [];

  push(task: Task): void {
    let at = this.#tasks.push(task) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#swapIfBefore(at, above)) return;
      at = above;
    }
  }

  pop(): Task | undefined {
    const first = this.#tasks[0];
    const last = this.#tasks.pop();
    if (first === undefined || last === undefined || this.#tasks.length === 0) return first;
    this.#tasks[0] = last;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      const least = this.#isBefore(right, left) ? right : left;
      if (!this.#swapIfBefore(least, at)) return first;
      at = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const a = this.#tasks[one];
    const b = this.#tasks[other];
    if (a === undefined || b === undefined) return false;
    return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
  }

  #swapIfBefore(one: number, other: number): boolean {
    const a = this.#tasks[one];
    const b = this.#tasks[other];
    if (a === undefined || b === undefined || !this.#isBefore(one, other)) return false;
    this.#tasks[one] = b;
    this.#tasks[other] = a;
    return true;
  }
}
