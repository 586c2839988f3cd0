import { enums, muster } from "@muster/proto";
import type { NodeState } from "../domain/node-state.ts";
import type { NodeUse } from "../domain/node-use.ts";
import type { NodesMark } from "../domain/plan-mark.ts";
import type { Owner, PodState } from "../domain/pod-state.ts";
import { makeProtoCodec, type Codec } from "@muster/store";

const { PodState: PodMessage, NodeState: NodeMessage, NodesComplete: MarkMessage } = muster.watch.v1;

export const podCodec = domainCodec(makeProtoCodec(PodMessage), podToWire, podFromWire);
export const nodeCodec = domainCodec(makeProtoCodec(NodeMessage), (state) => state, nodeFromWire);
const markCodec: Codec<NodesMark> = domainCodec(
  makeProtoCodec(MarkMessage),
  ({ atMs }) => ({ atMs }),
  ({ atMs }) => ({ atMs }),
);

/** The content of the bucket of nodes: the states of nodes, each with a name, and the mark. */
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

function podToWire(state: PodState): muster.watch.v1.PodState.$Properties {
  return { ...state, health: enums.Health.numbers[state.health] };
}

function podFromWire(message: muster.watch.v1.PodState): PodState {
  const { component, namespace, pod, uid, resourceVersion, podIp, node, reason, message: text } = message;
  const { deleted, deleting, exitCode, observedAtMs } = message;
  return {
    owner: ownerFromWire(message.owner),
    component,
    namespace,
    pod,
    uid,
    resourceVersion,
    podIp,
    node,
    health: enums.Health.nameOf(message.health) ?? "UNKNOWN",
    reason,
    message: text,
    deleted,
    deleting,
    exitCode,
    observedAtMs,
  };
}

function nodeFromWire(message: muster.watch.v1.NodeState): NodeState {
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
    taints: message.taints.map(({ key, value, effect }) => ({ key, value, effect })),
    allocatable: message.allocatable,
    occupants: message.occupants.map(ownerFromWire),
    overhead: useFromWire(message.overhead),
    foreign: useFromWire(message.foreign),
    shared: message.shared.map(({ owner, use }) => ({ owner: ownerFromWire(owner), use: useFromWire(use) })),
    occupantsVersion,
    deleted,
    observedAtMs,
  };
}

function useFromWire(use: muster.watch.v1.NodeUse | undefined): NodeUse {
  return { pods: use?.pods ?? 0, requests: use?.requests ?? {}, examples: use?.examples ?? [] };
}

function ownerFromWire(owner: muster.common.v1.Owner | undefined): Owner {
  return { kind: owner?.kind ?? "", id: owner?.id ?? "" };
}

function domainCodec<Domain, Message, Properties>(
  wire: Codec<Message, Properties>,
  to: (value: Domain) => Properties,
  from: (message: Message) => Domain,
): Codec<Domain> {
  return { encode: (value) => wire.encode(to(value)), decode: (bytes) => from(wire.decode(bytes)) };
}
