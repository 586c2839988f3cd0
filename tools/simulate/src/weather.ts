import type { Random } from "@muster/chaos/random";

/** What a process depends on, each of which can be away by itself. */
export type Dependency = "nats" | "api-server";

/** What may become of messages at the moment. All draws are from the seed. */
export type Weather = {
  readonly random: Random;
  /** Shares of calls and messages that meet each fault; all 0 once everything is healed. */
  risks: Risks;
  readonly away: Set<Dependency>;
  /** How often each kind of fault came true. */
  readonly met: Map<FaultKind, number>;
};

export type Risks = {
  /** A call does not arrive. */
  readonly lostBefore: number;
  /** A call has its effect, and its caller is told that it failed. */
  readonly lostAfter: number;
  /** A hint never arrives. */
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
  | "replica stopped"
  | "replica frozen"
  | "clock set"
  | "node off"
  | "node gone"
  | "leader changed";

export const CALM: Risks = { lostBefore: 0, lostAfter: 0, lostHint: 0, twice: 0, slow: 0 };
/** Some seeds are rough all the time, so that faults meet faults; others have single ones, so that what one does is seen. */
const CLIMATES: readonly [Risks, ...Risks[]] = [
  CALM,
  { lostBefore: 0.003, lostAfter: 0.003, lostHint: 0.05, twice: 0.01, slow: 0.01 },
  { lostBefore: 0.02, lostAfter: 0.02, lostHint: 0.3, twice: 0.05, slow: 0.02 },
  { lostBefore: 0.08, lostAfter: 0.08, lostHint: 0.6, twice: 0.1, slow: 0.05 },
];

export function makeWeather(random: Random): Weather {
  return { random, risks: random.pick(CLIMATES), away: new Set(), met: new Map() };
}

export function countFault(weather: Weather, kind: FaultKind): void {
  weather.met.set(kind, (weather.met.get(kind) ?? 0) + 1);
}

/** Draws whether this fault happens now, and counts it. */
export function meets(weather: Weather, kind: FaultKind, share: number): boolean {
  if (share === 0 || !weather.random.chance(share)) return false;
  countFault(weather, kind);
  return true;
}

/** How long a message takes on its way, in milliseconds. */
export function drawDelayMs(weather: Weather): number {
  if (meets(weather, "slow message", weather.risks.slow)) return weather.random.integer(300, 4000);
  return weather.random.chance(0.9) ? weather.random.integer(1, 8) : weather.random.integer(8, 60);
}
