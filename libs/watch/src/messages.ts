import type { Health } from "@muster/health";
import { muster } from "@muster/proto";
import { protoCodec } from "@muster/store";
import type { PodWatchEvent } from "./pod-watch-event.ts";

const { Health: WireHealth } = muster.health.v1;

const HEALTH = new Map<number, Health>([
  [WireHealth.HEALTH_READY, "READY"],
  [WireHealth.HEALTH_NOT_READY, "NOT_READY"],
  [WireHealth.HEALTH_SUCCEEDED, "SUCCEEDED"],
  [WireHealth.HEALTH_FAILED, "FAILED"],
]);

const wire = protoCodec(muster.watch.v1.PodState);

/** Reads what the watcher writes. */
export const podStateCodec = {
  encode: wire.encode,
  decode: (bytes: Uint8Array): PodWatchEvent => eventOf(wire.decode(bytes)),
};

function eventOf(state: muster.watch.v1.PodState): PodWatchEvent {
  const { component, pod, uid, podIp, node, reason, message, deleting, deleted, observedAtMs } = state;
  const error = [reason, message].filter((part) => part !== "").join(": ");
  return {
    owner: { kind: state.owner?.kind ?? "", id: state.owner?.id ?? "" },
    component,
    pod,
    uid,
    podIp,
    node,
    health: HEALTH.get(state.health) ?? "UNKNOWN",
    error: error === "" ? undefined : error,
    reason,
    exitCode: state.exitCode ?? undefined,
    deleting,
    deleted,
    observedAtMs,
  };
}
