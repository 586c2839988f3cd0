import { buildKinds } from "./build-kinds.ts";
import type { BootBackoff } from "./decide-boot-outcome.ts";
import type { Unavailability } from "./demand.ts";
import type { PoolPolicy } from "./pool.ts";
import type { BootFailure } from "./transition-boot-failures.ts";

/** A provider that does not list its instances. */
export type ProviderSilence = { readonly sinceMs: number; readonly message: string };

/** Why a pool does not get its nodes. */
export type PoolTrouble = {
  readonly pool: string;
  readonly code:
    "NO_CAPACITY" | "ZONE_UNKNOWN" | "BOOT_FAILED" | "BOOT_TIMEOUT" | "UNHEALTHY" | "PROVIDER_FAILED" | "POOL_WRONG";
  readonly provider: string;
  /** Undefined for every type of the pool. */
  readonly instanceType: string | undefined;
  readonly spot: boolean;
  /** Undefined for all zones. */
  readonly zone: string | undefined;
  readonly message: string;
  readonly sinceMs: number;
  /** Undefined if the provider is retried as soon as a node is needed; unknown with POOL_WRONG. */
  readonly nextTryAtMs: number | undefined;
  /** The number of consecutive failed boots. */
  readonly boots: number;
};

export type TroubleFacts = {
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly unavailable: readonly Unavailability[];
  readonly backoffs: ReadonlyMap<string, BootBackoff>;
  readonly silences: ReadonlyMap<string, ProviderSilence>;
  /** The problems of pools by pool, as their providers report them. */
  readonly invalidPools: ReadonlyMap<string, ProviderSilence>;
  readonly bootFailures: readonly BootFailure[];
  readonly nowMs: number;
};

/** After the pause, the next needed node tests the provider. Until this test the last failure stays. */
const PAUSE_KEPT_MS = 60_000;

/** Lists the troubles that the leader remembers, by pool, the oldest first. */
export function buildPoolTroubles(facts: TroubleFacts): PoolTrouble[] {
  return [...facts.policies.values()].flatMap((policy) =>
    [
      ...listInvalid(policy, facts),
      ...troublesOfProvider(policy, facts),
      ...shortages(policy, facts),
      ...failedBoots(policy, facts),
    ].sort((one, other) => one.sinceMs - other.sinceMs),
  );
}

const WHOLE_POOL = { instanceType: undefined, spot: false, zone: undefined, boots: 0 } as const;

function listInvalid({ name: pool, provider }: PoolPolicy, { invalidPools }: TroubleFacts): PoolTrouble[] {
  const wrong = invalidPools.get(pool);
  if (wrong === undefined) return [];
  return [{ ...WHOLE_POOL, pool, provider, code: "POOL_WRONG", ...wrong, nextTryAtMs: undefined }];
}

function troublesOfProvider(
  { name: pool, provider }: PoolPolicy,
  { silences, backoffs, nowMs }: TroubleFacts,
): PoolTrouble[] {
  const silence = silences.get(provider);
  const ofProvider = [...backoffs.values()].filter(({ asked }) => asked.provider === provider);
  const [backoff] = ofProvider.sort((one, other) => other.untilMs - one.untilMs);
  const paused = backoff !== undefined && nowMs < backoff.untilMs + PAUSE_KEPT_MS ? backoff : undefined;
  const found = silence ?? paused;
  if (found === undefined) return [];
  const { sinceMs, message } = found;
  const nextTryAtMs = paused !== undefined && paused.untilMs > nowMs ? paused.untilMs : undefined;
  return [{ ...WHOLE_POOL, pool, provider, code: "PROVIDER_FAILED", message, sinceMs, nextTryAtMs }];
}

function shortages(policy: PoolPolicy, { unavailable, nowMs }: TroubleFacts): PoolTrouble[] {
  const { name: pool, provider } = policy;
  const kinds = buildKinds(policy);
  return unavailable
    .filter((mark) => mark.provider === provider && mark.untilMs > nowMs)
    .filter((mark) => kinds.some((kind) => kind.instanceType === mark.instanceType && kind.spot === mark.spot))
    .map(({ instanceType, spot, zone, message, isUnknownZone, sinceMs, untilMs }) => {
      const kind = { pool, provider, instanceType, spot, zone };
      return {
        ...kind,
        code: isUnknownZone === true ? "ZONE_UNKNOWN" : "NO_CAPACITY",
        message,
        sinceMs,
        nextTryAtMs: untilMs,
        boots: 0,
      };
    });
}

function failedBoots({ name, provider }: PoolPolicy, { bootFailures, nowMs }: TroubleFacts): PoolTrouble[] {
  return bootFailures
    .filter((failure) => failure.pool === name && failure.provider === provider)
    .map(({ instanceType, spot, code, message, sinceMs, untilMs, boots }) => {
      const kind = { pool: name, provider, instanceType, spot, zone: undefined };
      return { ...kind, code, message, sinceMs, nextTryAtMs: untilMs > nowMs ? untilMs : undefined, boots };
    });
}
