import { formatElapsed } from "@muster/faults";
import { escapeControls } from "./build-table.ts";
import { formatCount } from "./plural.ts";
import type { PoolTrouble } from "../adapters/node-messages.ts";

/** Formats `no large on demand in zone-a available for 2m05s (out of capacity), retried in 7m55s`. */
export function describePoolTrouble(trouble: PoolTrouble, nowMs: number): string {
  const { code, provider, boots, message, sinceMs, nextTryAtMs } = trouble;
  const since = formatElapsed(nowMs - sinceMs);
  const detail = message === "" ? "" : ` (${escapeControls(message)})`;
  const again =
    nextTryAtMs === undefined || nextTryAtMs <= nowMs
      ? "retried with the next node that is needed"
      : `retried in ${formatElapsed(nextTryAtMs - nowMs)}`;
  const kind = kindOf(trouble);
  switch (code) {
    case "NO_CAPACITY":
      return `no ${kind} available for ${since}${detail}, ${again}`;
    case "BOOT_FAILED":
    case "BOOT_TIMEOUT":
      return `${formatCount(boots, "boot")} of ${kind} in a row failed to become nodes, since ${since} ago: ${code}${detail}`;
    case "UNHEALTHY":
      return `${formatCount(boots, "boot")} of ${kind} in a row became unusable nodes, since ${since} ago: ${code}${detail}`;
    case "PROVIDER_FAILED":
      return `provider ${provider} fails for ${since}${detail}, ${again}`;
    case "POOL_WRONG":
      return `provider ${provider} cannot create the nodes of this pool for ${since}${detail}; checked again until it can`;
    default:
      return `${code} of ${kind} for ${since}${detail}, ${again}`;
  }
}

function kindOf({ instanceType, spot, zone }: PoolTrouble): string {
  const type = instanceType === "" ? "node" : instanceType;
  return `${type} ${spot ? "as spot" : "on demand"}${zone === "" ? "" : ` in zone ${zone}`}`;
}
