import type { Health } from "@muster/health";
import { muster, type PropertiesOf } from "@muster/proto";
import type { NodeState } from "../domain/node-state.ts";
import type { NodesMark } from "../domain/plan-mark.ts";
import type { Owner, PodState } from "../domain/pod-state.ts";
import { protoCodec, type Codec } from "@muster/store";

const { PodState: PodMessage, NodeState: NodeMessage, NodesComplete: MarkMessage } = muster.watch.v1;
const { Health: WireHealth } = muster.health.v1;

const TO_WIRE = {
  UNKNOWN: WireHealth.HEALTH_UNKNOWN,
  READY: WireHealth.HEALTH_READY,
  NOT_READY: WireHealth.HEALTH_NOT_READY,
  SUCCEEDED: WireHealth.HEALTH_SUCCEEDED,
  FAILED: WireHealth.HEALTH_FAILED,
} as const satisfies Record<Health, number>;

const FROM_WIRE = new Map<number, Health>([
  [WireHealth.HEALTH_READY, "READY"],
  [WireHealth.HEALTH_NOT_READY, "NOT_READY"],
  [WireHealth.HEALTH_SUCCEEDED, "SUCCEEDED"],
  [WireHealth.HEALTH_FAILED, "FAILED"],
]);

export const podCodec = domainCodec(protoCodec(PodMessage), podToWire, podFromWire);
export const nodeCodec = domainCodec(protoCodec(NodeMessage), nodeToWire, nodeFromWire);
export const markCodec: Codec<NodesMark> = domainCodec(
  protoCodec(MarkMessage),
  ({ atMs }) => ({ atMs }),
  ({ atMs }) => ({ atMs }),
);

/** What the bucket of nodes holds: their states, each with a name, and the mark. */
export type NodeRecord = NodeState | NodesMark;

export const nodeRecordCodec: Codec<NodeRecord> = {
  encode: (record) => (isNode(record) ? nodeCodec.encode(record) : markCodec.encode(record)),
  decode: (bytes) => {
    const node = nodeCodec.decode(bytes);
    return node.name === "" ? markCodec.decode(bytes) : node;
  },
};

export function isNode(record: NodeRecord): record is NodeState {
  return "name" in record;
}

export function podToWire(state: PodState): PropertiesOf<typeof PodMessage> {
  const { exitCode, health, ...rest } = state;
  return { ...rest, health: TO_WIRE[health], ...(exitCode === undefined ? {} : { exitCode }) };
}

export function podFromWire(message: muster.watch.v1.PodState): PodState {
  const { component, namespace, pod, uid, resourceVersion, podIp, node, reason, message: text } = message;
  const { deleted, deleting, observedAtMs } = message;
  return {
    owner: ownerFromWire(message.owner),
    component,
    namespace,
    pod,
    uid,
    resourceVersion,
    podIp,
    node,
    health: FROM_WIRE.get(message.health) ?? "UNKNOWN",
    reason,
    message: text,
    deleted,
    deleting,
    exitCode: message.exitCode ?? undefined,
    observedAtMs,
  };
}

export function nodeToWire(state: NodeState): PropertiesOf<typeof NodeMessage> {
  const { labels, occupants, ...rest } = state;
  return { ...rest, labels: { ...labels }, occupants: [...occupants] };
}

export function nodeFromWire(message: muster.watch.v1.NodeState): NodeState {
  const { name, uid, resourceVersion, labels, occupantsVersion, deleted, observedAtMs } = message;
  return {
    name,
    uid,
    resourceVersion,
    labels,
    ready: message.ready,
    schedulable: message.schedulable,
    cordoned: message.cordoned,
    unopened: message.unopened,
    occupants: message.occupants.map(ownerFromWire),
    occupantsVersion,
    deleted,
    observedAtMs,
  };
}

function ownerFromWire(
  owner: { readonly kind?: string | null; readonly id?: string | null } | null | undefined,
): Owner {
  return { kind: owner?.kind ?? "", id: owner?.id ?? "" };
}

function domainCodec<Domain, Message, Properties>(
  wire: Codec<Message, Properties>,
  to: (value: Domain) => Properties,
  from: (message: Message) => Domain,
): Codec<Domain> {
  return { encode: (value) => wire.encode(to(value)), decode: (bytes) => from(wire.decode(bytes)) };
}
