import { throwFault } from "@muster/faults";
import { decideRoom, type Fill } from "../domain/decide-room.ts";

/** Reserves a part of a bucket for the engine's own writes. */
export type Room = {
  /** Call before a write of this size. Rejects with limit_exceeded if it would use the reserved part, and as a bucket does. */
  take(bytes: number): Promise<void>;
};

/** For callers without a limited bucket. */
export const UNLIMITED: Room = { take: () => Promise.resolve() };

/** Maximum age of the last fill level; later writes are added to it here. */
const FRESH_MS = 1000;
const RETRY_MS = 10_000;

export type RoomDeps = {
  readonly name: string;
  readonly fill: () => Promise<Fill>;
  /** Bytes that the engine will still write for existing leases. */
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
