import type { Fault } from "@muster/faults";

export type StreamLimits = { readonly maxStreams: number; readonly maxUserStreams: number };

/** Slots for streams, limited per process and per user. */
export type StreamSlots = {
  /** Returns a slot that is held until its disposal, or the fault that names the exceeded limit. */
  take(user: string): Disposable | Fault;
  readonly taken: number;
};

const RETRY_MS = 10_000;

export function streamSlots({ maxStreams, maxUserStreams }: StreamLimits): StreamSlots {
  const byUser = new Map<string, number>();
  let taken = 0;
  return {
    get taken() {
      return taken;
    },
    take: (user) => {
      const own = byUser.get(user) ?? 0;
      if (own >= maxUserStreams) return tooMany("number of your streams", maxUserStreams);
      if (taken >= maxStreams) return tooMany("number of streams", maxStreams);
      byUser.set(user, own + 1);
      taken += 1;
      return {
        [Symbol.dispose]: () => {
          taken -= 1;
          const left = (byUser.get(user) ?? 1) - 1;
          if (left === 0) byUser.delete(user);
          else byUser.set(user, left);
        },
      };
    },
  };
}

function tooMany(what: string, limit: number): Fault {
  return { code: "limit_exceeded", what, limit, retryAfterMs: RETRY_MS };
}
