import { AsyncLocalStorage } from "node:async_hooks";

/**
 * Runs work, so many at once; what waits begins user by user, each with its oldest, however much the others have waiting. Work whose signal is aborted before its turn
 * comes is not begun, and rejects with the reason.
 */
export type UserTurns = <Result>(user: string, work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

type Waiting = { readonly begin: () => void; hasLeft: boolean };

/** Of work that is under way. */
type Turn = {
  isHeld: boolean;
  hasEnded: boolean;
  readonly give: () => void;
  readonly takeAgain: () => Promise<void>;
};

const turns = new AsyncLocalStorage<Turn>();

export function userTurns(atOnce: number): UserTurns {
  /** The first of them is next; who has had a turn comes last. */
  const users = new Map<string, Waiting[]>();
  let busy = 0;
  const pass = (): void => {
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
    if (busy < atOnce) {
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
    const turn: Turn = {
      isHeld: true,
      hasEnded: false,
      give: () => {
        if (!turn.isHeld) return;
        turn.isHeld = false;
        pass();
      },
      takeAgain: async () => {
        await take(user);
        turn.isHeld = true;
        // Nobody waits for it any more.
        if (turn.hasEnded) turn.give();
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
      turn.give();
    }
  };
}

/** Waits without the turn of the work that this is called from, if it has one: others have it meanwhile, and it goes on once it has one again. */
export async function aside<Result>(wait: () => Promise<Result>): Promise<Result> {
  const turn = turns.getStore();
  if (turn === undefined) return wait();
  turn.give();
  try {
    return await wait();
  } finally {
    await turn.takeAgain();
  }
}
