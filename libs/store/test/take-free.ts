import type { SessionLock } from "../src/claim-locks.ts";
import type { Session } from "../src/index.ts";

/** The report of a process with sessions to its parent. */
export type SessionEvent = {
  readonly state?: string;
  readonly session?: string;
  readonly took?: string;
  readonly token?: number;
  readonly answerTo?: string;
  readonly result?: "done" | "refused";
  readonly isHeld?: boolean;
};

/** Takes each of these locks as soon as it is free, while the session lives. */
export async function takeFree(
  session: Session,
  keys: readonly string[],
  report: (event: SessionEvent) => void,
): Promise<Map<string, SessionLock>> {
  const has = new Map<string, SessionLock>();
  const take = async (key: string): Promise<void> => {
    const lock = await session.lock(key);
    if (lock === undefined || has.has(key)) return;
    has.set(key, lock);
    report({ took: key, token: lock.token });
  };
  const look = async (): Promise<void> => {
    const { locks } = session.view();
    await Promise.all(keys.filter((key) => !has.has(key) && locks.get(key)?.free !== false).map(take));
  };
  session.onChange(() => void look());
  await look();
  return has;
}
