import { enums, muster } from "@muster/proto";
import type {
  BootingNodes,
  DemandScaling,
  ListedNode,
  MachineState,
  PoolScaling,
  PoolTrouble,
  ScaledNode,
  ScalerDump,
} from "../domain/scaled-node.ts";
import { pick, unlessDefault } from "./message-fields.ts";

export function nodeFromMessage(message = muster.node.v1.NodeRecord.create(), machine?: MachineState): ScaledNode {
  const { spec, holder } = message;
  const terminate = spec?.terminate;
  return {
    name: message.name,
    pool: spec?.pool ?? "",
    instanceType: spec?.instanceType ?? "",
    spot: spec?.spot ?? false,
    zone: spec?.zone ?? "",
    phase: enums.NodePhase.nameOf(message.phase) ?? "UNKNOWN",
    ...pick(message, "phaseSinceMs", "createdAtMs", "instanceId", "kubernetesNode", "addresses", "boundTo"),
    holder: holder ? `${holder.kind}/${holder.id}` : "",
    terminate: terminate && {
      ...pick(terminate, "code", "message", "atMs"),
      drainUntilMs: unlessDefault(terminate.drainUntilMs),
    },
    unhealthySinceMs: unlessDefault(message.unhealthySinceMs),
    idleSinceMs: unlessDefault(message.idleSinceMs),
    trouble: message.trouble,
    machine,
  };
}

export function machineFromMessage(message: muster.reservation.v1.MachineState): MachineState {
  const { foreign, holder } = message;
  return {
    ...pick(message, "node", "pool", "standing", "allocatable", "free", "excess"),
    ...(message.zone !== "" && { zone: message.zone }),
    // A ledger that does not report the tolerated standing may not report cordons either.
    cordoned: message.toleratedStanding === "" ? undefined : message.cordoned,
    holder: holder?.owner === undefined ? "" : `${holder.owner.kind}/${holder.owner.id}`,
    sharedHolders: message.sharedHolders.map(({ owner, sinceMs }) => ({
      owner: `${owner?.kind ?? ""}/${owner?.id ?? ""}`,
      sinceMs,
    })),
    foreign: foreign && pick(foreign, "pods", "requests", "examples"),
  };
}

/** A node that the node scaler did not make. */
export function staticNode(machine: MachineState): ListedNode {
  const { node, pool, holder } = machine;
  const place = machine.zone === undefined ? {} : { zone: machine.zone };
  return { name: node, pool, phase: "STATIC", kubernetesNode: node, holder, ...place, machine };
}

export function scalingFromMessage(message: muster.node.v1.PoolScaling): PoolScaling {
  const { blockedCode, blockedMessage } = message;
  return {
    ...pick(message, "pool", "max", "standby"),
    booting: message.booting.map(bootingFromMessage),
    blocked: blockedCode ? { code: blockedCode, message: blockedMessage } : undefined,
  };
}

export function dumpFromMessage(message: muster.node.v1.DumpNodesReply): ScalerDump {
  return {
    ...pick(message, "leader", "term", "nodes"),
    loops: message.loops.map((loop) => ({
      ...pick(loop, "name", "intervalMs", "rounds", "failures"),
      lastStartedAtMs: unlessDefault(loop.lastStartedAtMs),
      ...pick(loop, "lastDurationMs", "meanDurationMs", "error"),
    })),
    unavailable: message.unavailable.map((kind) => ({
      ...pick(kind, "provider", "instanceType", "spot"),
      place: [kind.zone, kind.subnet].filter((part) => part !== "").join(" "),
      ...pick(kind, "message", "sinceMs", "untilMs"),
    })),
    pools: message.pools.map(scalingFromMessage),
    bindings: message.bindings.map((each) => pick(each, "demand", "node")),
    bindingsMore: message.bindingsMore,
    troubles: message.troubles.map(troubleFromMessage),
    undecided: message.undecided,
  };
}

export function demandFromMessage(message: muster.node.v1.ExplainDemandReply): DemandScaling {
  if (!message.known) return { state: "unknown" };
  return {
    state: "known",
    ...pick(message, "code", "message"),
    booting: message.booting.map(bootingFromMessage),
    troubles: message.troubles.map(troubleFromMessage),
  };
}

function troubleFromMessage(trouble: muster.node.v1.PoolTrouble): PoolTrouble {
  return {
    ...pick(trouble, "pool", "code", "provider", "instanceType", "spot", "zone", "message", "sinceMs"),
    nextTryAtMs: unlessDefault(trouble.nextTryAtMs),
    boots: trouble.boots,
  };
}

function bootingFromMessage(message: muster.node.v1.BootingNodes): BootingNodes {
  return pick(message, "instanceType", "spot", "count", "sinceMs");
}
