import { AsyncLocalStorage } from "node:async_hooks";
import { TaskQueue, type Process, type Task } from "./task-queue.ts";

type Running = { readonly time: VirtualTime; readonly process: Process | undefined };

const running = new AsyncLocalStorage<Running>();
const nextTurn = setImmediate;

/** The virtual time of the code that asks; undefined for code that runs in no simulation. */
export function virtualTime(): VirtualTime | undefined {
  return running.getStore()?.time;
}

/** Time that passes only when nothing is left to do at the present moment. */
export class VirtualTime {
  nowMs: number;
  /** Tasks that have run so far. */
  steps = 0;
  readonly #queue = new TaskQueue();
  #orders = 0;

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  /** The process whose code is running. */
  current(): Process | undefined {
    return running.getStore()?.process;
  }

  after(ms: number, owner: Process | undefined, run: () => void): Task {
    const atMs = this.nowMs + Math.max(0, ms);
    const task: Task = { atMs, order: (this.#orders += 1), owner, run, over: false };
    this.#queue.push(task);
    return task;
  }

  /** Runs the work as code of this process; everything that it waits for belongs to the process, too. */
  as<Result>(process: Process | undefined, work: () => Result): Result {
    return running.run({ time: this, process }, work);
  }

  /** Goes to the next task, runs it and all that follows from it at once. False: nothing will ever happen again. */
  async step(): Promise<boolean> {
    for (let task = this.#queue.pop(); task !== undefined; task = this.#queue.pop()) {
      const { owner } = task;
      if (task.over || owner?.alive === false) continue;
      this.nowMs = Math.max(this.nowMs, task.atMs);
      if (owner !== undefined && owner.frozenUntilMs > this.nowMs) {
        // Held tasks keep their order among themselves.
        task.atMs = owner.frozenUntilMs;
        task.order = this.#orders += 1;
        this.#queue.push(task);
        continue;
      }
      task.over = true;
      this.steps += 1;
      this.as(owner, task.run);
      // Every promise that can go on does so before this turn comes.
      await new Promise((resolve) => nextTurn(resolve));
      return true;
    }
    return false;
  }
}
