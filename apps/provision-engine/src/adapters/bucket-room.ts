import { throwFault } from "@muster/faults";
import { decideRoom, type Fill } from "../domain/decide-room.ts";

/** Keeps a part of a bucket free of what users ask for. */
export type Room = {
  /** Before so much is written: rejects with limit_exceeded where the last part of the bucket would be used, and as a bucket does. */
  take(bytes: number): Promise<void>;
};

/** For what has no bucket of its own. */
export const UNLIMITED: Room = { take: () => Promise.resolve() };

/** A bucket is asked so often how full it is; what is written meanwhile is counted here. */
const FRESH_MS = 1000;
const RETRY_MS = 10_000;

export type RoomDeps = {
  readonly name: string;
  readonly fill: () => Promise<Fill>;
  /** Bytes that the engine will still write for what is there. */
  readonly promised: () => number;
  readonly nowMs: () => number;
};

export function openRoom({ name, fill, promised, nowMs }: RoomDeps): Room {
  let asked: { readonly atMs: number; readonly fill: Promise<Fill>; taken: number } | undefined;
  return {
    take: async (bytes) => {
      if (asked === undefined || nowMs() - asked.atMs >= FRESH_MS) asked = { atMs: nowMs(), fill: fill(), taken: 0 };
      const now = asked;
      const filled = await now.fill.catch((error: unknown) => {
        asked = undefined;
        throw error;
      });
      const verdict = decideRoom(filled, promised() + now.taken, bytes);
      if (verdict.kind === "none") {
        const what = `size of bucket ${name} without what is kept for the ends of leases`;
        throwFault({ code: "limit_exceeded", what, limit: verdict.limit, retryAfterMs: RETRY_MS });
      }
      now.taken += bytes;
    },
  };
}
