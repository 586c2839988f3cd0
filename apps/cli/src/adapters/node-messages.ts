import { enums, muster } from "@muster/proto";
import type {
  BootingNodes,
  DemandScaling,
  PoolScaling,
  PoolTrouble,
  ScaledNode,
  ScalerDump,
} from "../domain/scaled-node.ts";

export function nodeFromMessage(message = muster.node.v1.NodeRecord.create()): ScaledNode {
  const { spec, holder } = message;
  const terminate = spec?.terminate;
  return {
    name: message.name,
    pool: spec?.pool ?? "",
    instanceType: spec?.instanceType ?? "",
    spot: spec?.spot ?? false,
    zone: spec?.zone ?? "",
    phase: enums.NodePhase.nameOf(message.phase) ?? "UNKNOWN",
    phaseSinceMs: message.phaseSinceMs,
    createdAtMs: message.createdAtMs,
    instanceId: message.instanceId,
    kubernetesNode: message.kubernetesNode,
    addresses: message.addresses,
    boundTo: message.boundTo,
    holder: holder ? `${holder.kind}/${holder.id}` : "",
    terminate: terminate && {
      code: terminate.code,
      message: terminate.message,
      atMs: terminate.atMs,
      drainUntilMs: zeroIsAbsent(terminate.drainUntilMs),
    },
    unhealthySinceMs: zeroIsAbsent(message.unhealthySinceMs),
    idleSinceMs: zeroIsAbsent(message.idleSinceMs),
    trouble: message.trouble,
  };
}

export function scalingFromMessage(message: muster.node.v1.PoolScaling): PoolScaling {
  const { blockedCode, blockedMessage } = message;
  return {
    pool: message.pool,
    max: message.max,
    standby: message.standby,
    booting: message.booting.map(bootingFromMessage),
    blocked: blockedCode ? { code: blockedCode, message: blockedMessage } : undefined,
  };
}

export function dumpFromMessage(message: muster.node.v1.DumpNodesReply): ScalerDump {
  return {
    leader: message.leader,
    term: message.term,
    nodes: message.nodes,
    loops: message.loops.map((loop) => ({
      name: loop.name,
      intervalMs: loop.intervalMs,
      rounds: loop.rounds,
      failures: loop.failures,
      lastStartedAtMs: zeroIsAbsent(loop.lastStartedAtMs),
      lastDurationMs: loop.lastDurationMs,
      meanDurationMs: loop.meanDurationMs,
      error: loop.error,
    })),
    unavailable: message.unavailable.map((kind) => ({
      provider: kind.provider,
      instanceType: kind.instanceType,
      spot: kind.spot,
      place: [kind.zone, kind.subnet].filter((part) => part !== "").join(" "),
      message: kind.message,
      sinceMs: kind.sinceMs,
      untilMs: kind.untilMs,
    })),
    pools: message.pools.map(scalingFromMessage),
    bindings: message.bindings.map(({ demand, node }) => ({ demand, node })),
    bindingsMore: message.bindingsMore,
    troubles: message.troubles.map(troubleFromMessage),
    undecided: message.undecided,
  };
}

export function demandFromMessage(message: muster.node.v1.ExplainDemandReply): DemandScaling {
  if (!message.known) return { state: "unknown" };
  const { code, message: text, booting, troubles } = message;
  return {
    state: "known",
    code,
    message: text,
    booting: booting.map(bootingFromMessage),
    troubles: troubles.map(troubleFromMessage),
  };
}

function troubleFromMessage(trouble: muster.node.v1.PoolTrouble): PoolTrouble {
  return {
    pool: trouble.pool,
    code: trouble.code,
    provider: trouble.provider,
    instanceType: trouble.instanceType,
    spot: trouble.spot,
    zone: trouble.zone,
    message: trouble.message,
    sinceMs: trouble.sinceMs,
    nextTryAtMs: zeroIsAbsent(trouble.nextTryAtMs),
    boots: trouble.boots,
  };
}

function bootingFromMessage({ instanceType, spot, count, sinceMs }: muster.node.v1.BootingNodes): BootingNodes {
  return { instanceType, spot, count, sinceMs };
}

function zeroIsAbsent(number: number): number | undefined {
  return number === 0 ? undefined : number;
}
