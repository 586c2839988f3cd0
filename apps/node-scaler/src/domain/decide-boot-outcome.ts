import type { NodeChange } from "./change-node.ts";
import type { ScaledNode } from "./node.ts";
import type { RequestedInstance, CapacityShortage } from "./unavailability.ts";

/** The answer of the provider to a start. `failed` means that the start may have taken effect. */
export type BootAnswer =
  | { readonly kind: "started"; readonly instanceId: string; readonly zone: string | undefined }
  | CapacityShortage
  | { readonly kind: "failed"; readonly message: string; readonly retryAfterMs: number };

type BootOutcome =
  | (NodeChange & { readonly kind: "change"; readonly because: "started" | "failed" })
  /** No instance exists or will exist: the record ends immediately, and the shortage is remembered. */
  | (NodeChange & { readonly kind: "change"; readonly because: "short"; readonly shortage: CapacityShortage });

/** Decides the outcome of a boot from the provider's answer for a node that is Creating. The heartbeat ends a failed boot as BOOT_FAILED. */
export function decideBootOutcome({ name, spec }: ScaledNode, answer: BootAnswer): BootOutcome {
  const change = { kind: "change", node: name, expected: "Creating" } as const;
  switch (answer.kind) {
    case "started": {
      const { instanceId, zone } = answer;
      const status = { instanceId, trouble: undefined };
      return { ...change, phase: "Created", spec: { zone: zone ?? spec.zone }, status, because: "started" };
    }
    case "no-capacity":
    case "unsupported":
      return {
        ...change,
        phase: "Terminated",
        status: { trouble: { code: "BOOT_REFUSED", message: answer.message } },
        because: "short",
        shortage: answer,
      };
    case "failed":
      return { ...change, status: { trouble: { code: "BOOT_REFUSED", message: answer.message } }, because: "failed" };
  }
}

/** The request of a boot; `zone` undefined: any zone with room. */
type BootKind = RequestedInstance & { readonly zone: string | undefined };

/** Consecutive failures of one kind, their beginning, and the time of the next attempt. */
export type BootBackoff = {
  readonly asked: BootKind;
  readonly failures: number;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly message: string;
};

export function buildBootKindKey({ provider, instanceType, spot, zone }: BootKind): string {
  return `${provider}\n${instanceType}\n${spot}\n${zone ?? ""}`;
}

const FIRST_PAUSE_MS = 10_000;
const LONGEST_PAUSE_MS = 300_000;

/**
 * Lengthens the pause after one more failure. Several nodes that fail in one round count as one failure. Failures during a pause do not lengthen it, unless the
 * provider requests a longer one.
 */
export function lengthenBackoff(
  before: BootBackoff | undefined,
  failure: { readonly asked: BootKind; readonly message: string; readonly retryAfterMs: number },
  nowMs: number,
): BootBackoff {
  const { asked, message, retryAfterMs } = failure;
  if (before !== undefined && nowMs < before.untilMs)
    return { ...before, untilMs: Math.max(before.untilMs, nowMs + retryAfterMs) };
  const failures = (before?.failures ?? 0) + 1;
  const sinceMs = before?.sinceMs ?? nowMs;
  return { asked, failures, sinceMs, message, untilMs: nowMs + Math.max(pauseMsAfter(failures), retryAfterMs) };
}

/** Returns the pause after this many consecutive failures, in milliseconds: doubled up to five minutes. */
export function pauseMsAfter(failures: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 10), LONGEST_PAUSE_MS);
}
