import { AsyncLocalStorage } from "node:async_hooks";

/**
 * Runs work with limited concurrency. Queued work starts round-robin by user, oldest first, so that no user can delay the others. Work whose signal is aborted
 * while it is queued does not start, and rejects with the reason.
 */
type UserTurns = <Result>(user: string, work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

type Waiting = { readonly begin: () => void; hasLeft: boolean };

/** The slot of work in flight. */
type Turn = {
  isHeld: boolean;
  hasEnded: boolean;
  readonly release: () => void;
  /** Resolves once the turn is held; concurrent calls take one slot. */
  readonly reacquire: () => Promise<void>;
};

const turns = new AsyncLocalStorage<Turn>();

export function makeUserTurns(maxConcurrent: number): UserTurns {
  /** In the order of the next turns; a user goes to the end after each turn. */
  const users = new Map<string, Waiting[]>();
  let busy = 0;
  const startNext = (): void => {
    for (const [user, waiting] of users) {
      users.delete(user);
      let next = waiting.shift();
      while (next?.hasLeft === true) next = waiting.shift();
      if (waiting.length > 0) users.set(user, waiting);
      if (next === undefined) continue;
      next.begin();
      return;
    }
    busy -= 1;
  };
  const take = async (user: string, signal?: AbortSignal): Promise<void> => {
    signal?.throwIfAborted();
    if (busy < maxConcurrent) {
      busy += 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const waiting: Waiting = { begin: () => resolve(undefined), hasLeft: false };
    const leave = (): void => {
      waiting.hasLeft = true;
      reject(signal?.reason);
    };
    const others = users.get(user);
    if (others === undefined) users.set(user, [waiting]);
    else others.push(waiting);
    signal?.addEventListener("abort", leave, { once: true });
    await promise.finally(() => signal?.removeEventListener("abort", leave));
  };
  const turnOf = (user: string): Turn => {
    let taking: Promise<void> | undefined;
    const reacquire = async (): Promise<void> => {
      await take(user);
      taking = undefined;
      turn.isHeld = true;
      // The work has ended meanwhile.
      if (turn.hasEnded) turn.release();
    };
    const turn: Turn = {
      isHeld: true,
      hasEnded: false,
      release: () => {
        if (!turn.isHeld) return;
        turn.isHeld = false;
        startNext();
      },
      reacquire: async () => {
        if (!turn.isHeld) await (taking ??= reacquire());
      },
    };
    return turn;
  };
  return async (user, work, signal) => {
    await take(user, signal);
    const turn = turnOf(user);
    try {
      return await turns.run(turn, work);
    } finally {
      turn.hasEnded = true;
      turn.release();
    }
  };
}

/**
 * Releases the turn of the calling work, if any, while `wait` is pending, and resolves after the work has a turn again.
 * Concurrent calls within one work share its turn.
 */
export async function releaseTurnWhile<Result>(wait: () => Promise<Result>): Promise<Result> {
  const turn = turns.getStore();
  if (turn === undefined) return wait();
  turn.release();
  try {
    return await wait();
  } finally {
    await turn.reacquire();
  }
}
