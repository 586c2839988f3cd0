import { pauseMsAfter } from "./decide-boot-outcome.ts";
import type { ScaledNode, TerminationCode } from "./node.ts";
import type { ClaimStep } from "./plan-node-claims.ts";
import type { HeartbeatStep } from "./plan-heartbeat.ts";

/** Consecutive instances of one kind that were created and did not become usable nodes: their number, and the message of the latest. */
export type BootFailure = {
  readonly pool: string;
  readonly provider: string;
  readonly instanceType: string;
  readonly spot: boolean;
  readonly code: FailureCode;
  readonly message: string;
  readonly boots: number;
  /** The number of pauses so far. Boots that fail during a pause do not lengthen it, because they began before it. */
  readonly pauses: number;
  /** No further boot begins before this time. */
  readonly untilMs: number;
  readonly sinceMs: number;
  readonly latestMs: number;
};

/** UNHEALTHY means that the node was ready, and ended before any owner held it. */
type FailureCode = "BOOT_FAILED" | "BOOT_TIMEOUT" | "UNHEALTHY";

/** Time for which a failure is remembered. A kind without a further failure in this time may not even have been requested. */
const KEPT_MS = 1_800_000;
/** A node without a holder that has been healthy for this long proves its kind. */
const PROVEN_MS = 300_000;

type BootFailureNews = {
  /** The nodes before the steps. */
  readonly nodes: readonly ScaledNode[];
  /** The steps that were written. */
  readonly steps: readonly (HeartbeatStep | ClaimStep)[];
  readonly nowMs: number;
};

/**
 * Updates the memory of failed boots after a round of the heartbeat. A kind is forgotten once one of its nodes has been held, or healthy for a while. Readiness
 * is not enough, because unusable nodes that become ready would be recreated without a pause.
 */
export function transitionBootFailures(
  before: readonly BootFailure[],
  { nodes, steps, nowMs }: BootFailureNews,
): readonly BootFailure[] {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const failures = new Map(before.map((failure) => [buildFailureKey(failure), failure]));
  for (const step of steps) {
    const node = byName.get(step.node);
    if (node === undefined) continue;
    const isOfUse = step.because === "granted" || step.because === "occupied";
    if (isOfUse && !node.status.served) failures.delete(buildFailureKey(node.spec));
    const terminate = step.spec?.terminate;
    if (terminate === undefined || !isFailure(node, terminate.code)) continue;
    const { pool, provider, instanceType, spot } = node.spec;
    const known = failures.get(buildFailureKey(node.spec));
    const isPaused = known !== undefined && nowMs < known.untilMs;
    const pauses = (known?.pauses ?? 0) + (isPaused ? 0 : 1);
    failures.set(buildFailureKey(node.spec), {
      ...{ pool, provider, instanceType, spot },
      code: terminate.code,
      message: terminate.message,
      boots: (known?.boots ?? 0) + 1,
      pauses,
      untilMs: isPaused ? known.untilMs : nowMs + pauseMsAfter(pauses),
      sinceMs: known?.sinceMs ?? nowMs,
      latestMs: nowMs,
    });
  }
  return [...failures.values()].filter(
    (failure) => nowMs - failure.latestMs < KEPT_MS && !nodes.some((node) => isBootProven(node, failure, nowMs)),
  );
}

function isBootProven({ spec, status }: ScaledNode, failure: BootFailure, nowMs: number): boolean {
  const { phase, phaseSinceMs, unhealthySinceMs } = status;
  if (phase !== "Available" || unhealthySinceMs !== undefined || buildFailureKey(spec) !== buildFailureKey(failure))
    return false;
  return phaseSinceMs > failure.latestMs && nowMs - phaseSinceMs >= PROVEN_MS;
}

function isFailure({ status: { phase, served } }: ScaledNode, code: TerminationCode): code is FailureCode {
  // If no instance exists, the provider has failed, and not the boot.
  if (code === "BOOT_FAILED" || code === "BOOT_TIMEOUT") return phase === "Created";
  return code === "UNHEALTHY" && !served;
}

function buildFailureKey({ pool, instanceType, spot }: Pick<BootFailure, "pool" | "instanceType" | "spot">): string {
  return `${pool}\n${instanceType}\n${spot}`;
}
