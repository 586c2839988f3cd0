import type { Random } from "@muster/chaos/random";

/** A dependency of the processes; each can be unreachable by itself. */
export type Dependency = "nats" | "api-server";

/** The present risks of messages. All draws come from the seed. */
export type FaultRisks = {
  readonly random: Random;
  /** Probability of each fault of a call or message; all 0 after the heal. */
  risks: Risks;
  readonly away: Set<Dependency>;
  /** Number of injected faults, by kind. */
  readonly faultCounts: Map<FaultKind, number>;
};

export type Risks = {
  /** A call is lost. */
  readonly lostBefore: number;
  /** A call has its effect, but its answer is lost. */
  readonly lostAfter: number;
  /** A hint is lost. */
  readonly lostHint: number;
  /** A hint or a request arrives twice. */
  readonly twice: number;
  /** A message takes seconds. */
  readonly slow: number;
};

export type FaultKind =
  | "call lost"
  | "answer lost"
  | "hint lost"
  | "delivered twice"
  | "slow message"
  | "dependency away"
  | "watch interrupted"
  | "replica killed"
  | "controller killed"
  | "replica stopped"
  | "replica frozen"
  | "clock set"
  | "node off"
  | "node gone"
  | "leader changed"
  | "foreign pod"
  | "foreign pod on a granted machine";

export const CALM: Risks = { lostBefore: 0, lostAfter: 0, lostHint: 0, twice: 0, slow: 0 };
/** Fault rates of a seed: many, to combine faults, or few, to isolate a single one. */
const CLIMATES: readonly [Risks, ...Risks[]] = [
  CALM,
  { lostBefore: 0.003, lostAfter: 0.003, lostHint: 0.05, twice: 0.01, slow: 0.01 },
  { lostBefore: 0.02, lostAfter: 0.02, lostHint: 0.3, twice: 0.05, slow: 0.02 },
  { lostBefore: 0.08, lostAfter: 0.08, lostHint: 0.6, twice: 0.1, slow: 0.05 },
];

export function makeFaultRisks(random: Random): FaultRisks {
  return { random, risks: random.pick(CLIMATES), away: new Set(), faultCounts: new Map() };
}

export function countFault(weather: FaultRisks, kind: FaultKind): void {
  weather.faultCounts.set(kind, (weather.faultCounts.get(kind) ?? 0) + 1);
}

/** Draws whether this fault happens, and counts it. */
export function drawFault(weather: FaultRisks, kind: FaultKind, share: number): boolean {
  if (share === 0 || !weather.random.chance(share)) return false;
  countFault(weather, kind);
  return true;
}

/** Draws the delay of a message. */
export function drawDelayMs(weather: FaultRisks): number {
  if (drawFault(weather, "slow message", weather.risks.slow)) return weather.random.integer(300, 4000);
  return weather.random.chance(0.9) ? weather.random.integer(1, 8) : weather.random.integer(8, 60);
}
