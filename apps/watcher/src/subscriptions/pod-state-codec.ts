import { enums, muster } from "@muster/proto";
import { makeProtoCodec } from "@muster/store";
import type { PodWatchEvent } from "./pod-watch-event.ts";

const wire = makeProtoCodec(muster.watch.v1.PodState);

/** Reads the states that the watcher writes. */
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
    health: enums.Health.nameOf(state.health) ?? "UNKNOWN",
    error: error === "" ? undefined : error,
    reason,
    exitCode: state.exitCode,
    deleting,
    deleted,
    observedAtMs,
  };
}
