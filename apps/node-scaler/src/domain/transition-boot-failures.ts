import { pauseMsAfter } from "./decide-boot-outcome.ts";
import type { ScaledNode } from "./node.ts";
import type { HeartbeatStep } from "./plan-heartbeat.ts";

/** Instances of one kind that were made, and did not become nodes: those in a row, the latest of them told. */
export type BootFailure = {
  readonly pool: string;
  readonly provider: string;
  readonly instanceType: string;
  readonly spot: boolean;
  readonly code: "BOOT_FAILED" | "BOOT_TIMEOUT";
  readonly message: string;
  readonly boots: number;
  /** Pauses so far. Boots that fail during one do not lengthen it: they were begun before. */
  readonly pauses: number;
  /** No other is made before. */
  readonly untilMs: number;
  readonly sinceMs: number;
  readonly latestMs: number;
};

/** A kind that has not failed again for so long may not even have been asked for. */
const KEPT_MS = 1_800_000;

/** What is remembered of boots that failed, after a round of the heartbeat: a kind that has become ready again is forgotten. */
export function transitionBootFailures(
  before: readonly BootFailure[],
  {
    nodes,
    steps,
    nowMs,
  }: { readonly nodes: readonly ScaledNode[]; readonly steps: readonly HeartbeatStep[]; readonly nowMs: number },
): readonly BootFailure[] {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const failures = new Map(before.map((failure) => [keyOf(failure), failure]));
  for (const step of steps) {
    const node = byName.get(step.node);
    // Of one without an instance it is the provider that has failed.
    if (node?.status.phase !== "Created") continue;
    if (step.because === "ready") failures.delete(keyOf(node.spec));
    const terminate = step.spec?.terminate;
    if (terminate?.code !== "BOOT_FAILED" && terminate?.code !== "BOOT_TIMEOUT") continue;
    const { pool, provider, instanceType, spot } = node.spec;
    const known = failures.get(keyOf(node.spec));
    const isPaused = known !== undefined && nowMs < known.untilMs;
    const pauses = (known?.pauses ?? 0) + (isPaused ? 0 : 1);
    failures.set(keyOf(node.spec), {
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
  return [...failures.values()].filter(({ latestMs }) => nowMs - latestMs < KEPT_MS);
}

function keyOf({ pool, instanceType, spot }: Pick<BootFailure, "pool" | "instanceType" | "spot">): string {
  return `${pool}\n${instanceType}\n${spot}`;
}
