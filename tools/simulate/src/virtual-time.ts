import { AsyncLocalStorage } from "node:async_hooks";
import { TaskQueue, type Process, type Task } from "./task-queue.ts";

type Running = { readonly time: VirtualTime; readonly process: Process | undefined };

const running = new AsyncLocalStorage<Running>();
const nextTurn = setImmediate;

/** The virtual time of the calling code; undefined outside a simulation. */
export function getVirtualTime(): VirtualTime | undefined {
  return running.getStore()?.time;
}

/** Time that advances only when all work of the present moment is done. */
export class VirtualTime {
  nowMs: number;
  /** Number of tasks that have run. */
  steps = 0;
  readonly #queue = new TaskQueue();
  #orders = 0;

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  /** The process that runs the calling code. */
  current(): Process | undefined {
    return running.getStore()?.process;
  }

  after(ms: number, owner: Process | undefined, run: () => void): Task {
    const atMs = this.nowMs + Math.max(0, ms);
    const task: Task = { atMs, order: (this.#orders += 1), owner, run, over: false };
    this.#queue.push(task);
    return task;
  }

  /** Runs the work as code of this process, including its asynchronous continuations. */
  as<Result>(process: Process | undefined, work: () => Result): Result {
    return running.run({ time: this, process }, work);
  }

  /** Advances to the next task, and runs it with its immediate continuations. Returns false when no task is left. */
  async step(): Promise<boolean> {
    for (let task = this.#queue.pop(); task !== undefined; task = this.#queue.pop()) {
      const { owner } = task;
      if (task.over || owner?.alive === false) continue;
      this.nowMs = Math.max(this.nowMs, task.atMs);
      if (owner !== undefined && owner.frozenUntilMs > this.nowMs) {
        // Tasks of a frozen process keep their order.
        task.atMs = owner.frozenUntilMs;
        task.order = this.#orders += 1;
        this.#queue.push(task);
        continue;
      }
      task.over = true;
      this.steps += 1;
      this.as(owner, task.run);
      // All pending promise callbacks run before this turn.
      await new Promise((resolve) => nextTurn(resolve));
      return true;
    }
    return false;
  }
}
