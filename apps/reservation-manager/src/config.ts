import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { readEnv } from "@muster/service";
import type { ReservationPolicy } from "./domain/decisions/decide-reservation.ts";

export type Config = {
  readonly nats: NatsAccess;
  readonly poolLabel: string;
  readonly lockTtlMs: number;
  readonly nodesFreshMs: number;
  readonly policy: ReservationPolicy;
};

/** 500 machines with the longest possible names take less than 200 KiB in the log. */
const MACHINES_PER_PLAN = 500;
const DAY_MS = 86_400_000;

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => ({
    nats: readNatsAccess(read),
    /** Node label whose value is the name of the pool. */
    poolLabel: read.text("RESERVATION_POOL_LABEL", "pool"),
    /** Another replica replaces a leader that does not renew its lock for this long. */
    lockTtlMs: read.integer("RESERVATION_LOCK_TTL_MS", { fallback: 5000, min: 300, max: 600_000 }),
    /** Maximum difference between the watcher's mark and now, in either direction. Beyond it, no request is granted. */
    nodesFreshMs: read.integer("RESERVATION_NODES_FRESH_MS", { fallback: 120_000, min: 1000, max: DAY_MS }),
    policy: {
      /** Time during which younger requests may overtake a request before machines are held for it. */
      holdAfterMs: read.integer("RESERVATION_HOLD_AFTER_MS", { fallback: 600_000, min: 0, max: 30 * DAY_MS }),
      machinesPerPlan: MACHINES_PER_PLAN,
      /** Maximum number of waiting requests. */
      queueLimit: read.integer("RESERVATION_QUEUE_LIMIT", { fallback: 100_000, min: 0, max: 10_000_000 }),
    },
  }));
}
