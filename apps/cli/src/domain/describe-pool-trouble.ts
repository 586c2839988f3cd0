import { formatElapsed } from "@muster/faults";
import { plain } from "./build-table.ts";
import { plural } from "./plural.ts";
import type { PoolTrouble } from "../adapters/node-messages.ts";

/** Formats `no large on demand in zone-a for 2m05s (out of capacity), asked for again in 7m55s`. */
export function describePoolTrouble(trouble: PoolTrouble, nowMs: number): string {
  const { code, provider, boots, message, sinceMs, nextTryAtMs } = trouble;
  const since = formatElapsed(nowMs - sinceMs);
  const said = message === "" ? "" : ` (${plain(message)})`;
  const again =
    nextTryAtMs === undefined || nextTryAtMs <= nowMs
      ? "tried again with the next node that is needed"
      : `tried again in ${formatElapsed(nextTryAtMs - nowMs)}`;
  const kind = kindOf(trouble);
  switch (code) {
    case "NO_CAPACITY":
      return `no ${kind} to be had for ${since}${said}, ${again}`;
    case "BOOT_FAILED":
    case "BOOT_TIMEOUT":
      return `${plural(boots, "boot")} of ${kind} in a row became no node since ${since} ago: ${code}${said}`;
    case "UNHEALTHY":
      return `${plural(boots, "boot")} of ${kind} in a row became nodes of no use since ${since} ago: ${code}${said}`;
    case "PROVIDER_FAILED":
      return `provider ${provider} fails for ${since}${said}, ${again}`;
    case "POOL_WRONG":
      return `provider ${provider} cannot make what the pool asks for, for ${since}${said}, checked again until it can`;
    default:
      return `${code} of ${kind} for ${since}${said}, ${again}`;
  }
}

function kindOf({ instanceType, spot, zone }: PoolTrouble): string {
  const type = instanceType === "" ? "node" : instanceType;
  return `${type} ${spot ? "as spot" : "on demand"}${zone === "" ? "" : ` in zone ${zone}`}`;
}
