import { muster } from "@muster/proto";
import type {
  BootingNodes,
  DemandScaling,
  PoolScaling,
  PoolTrouble,
  ScaledNode,
  ScalerDump,
} from "../domain/scaled-node.ts";

type NodeMessage = muster.node.v1.NodeRecord.$Properties;
type ScalingMessage = muster.node.v1.PoolScaling.$Properties;

const { NodePhase } = muster.node.v1;

const PHASE_FROM_WIRE = new Map<number, string>([
  [NodePhase.NODE_PHASE_CREATING, "CREATING"],
  [NodePhase.NODE_PHASE_CREATED, "CREATED"],
  [NodePhase.NODE_PHASE_AVAILABLE, "AVAILABLE"],
  [NodePhase.NODE_PHASE_CLAIMED, "CLAIMED"],
  [NodePhase.NODE_PHASE_CLEANING, "CLEANING"],
  [NodePhase.NODE_PHASE_TERMINATING, "TERMINATING"],
  [NodePhase.NODE_PHASE_TERMINATED, "TERMINATED"],
]);

export function nodeFromMessage(message: NodeMessage): ScaledNode {
  const { spec, holder } = message;
  const terminate = spec?.terminate;
  return {
    name: message.name ?? "",
    pool: spec?.pool ?? "",
    instanceType: spec?.instanceType ?? "",
    spot: spec?.spot ?? false,
    zone: spec?.zone ?? "",
    phase: PHASE_FROM_WIRE.get(message.phase ?? 0) ?? "UNKNOWN",
    phaseSinceMs: message.phaseSinceMs ?? 0,
    createdAtMs: message.createdAtMs ?? 0,
    instanceId: message.instanceId ?? "",
    kubernetesNode: message.kubernetesNode ?? "",
    addresses: message.addresses ?? [],
    boundTo: message.boundTo ?? "",
    holder: holder ? `${holder.kind ?? ""}/${holder.id ?? ""}` : "",
    terminate: terminate
      ? {
          code: terminate.code ?? "",
          message: terminate.message ?? "",
          atMs: terminate.atMs ?? 0,
          drainUntilMs: zeroIsAbsent(terminate.drainUntilMs),
        }
      : undefined,
    unhealthySinceMs: zeroIsAbsent(message.unhealthySinceMs),
    idleSinceMs: zeroIsAbsent(message.idleSinceMs),
    trouble: message.trouble ?? "",
  };
}

export function scalingFromMessage(message: ScalingMessage): PoolScaling {
  const { blockedCode, blockedMessage } = message;
  return {
    pool: message.pool ?? "",
    max: message.max ?? 0,
    standby: message.standby ?? 0,
    booting: bootingFromMessage(message.booting),
    blocked: blockedCode ? { code: blockedCode, message: blockedMessage ?? "" } : undefined,
  };
}

export function dumpFromMessage(message: muster.node.v1.DumpNodesReply): ScalerDump {
  return {
    leader: message.leader,
    term: message.term,
    nodes: message.nodes,
    loops: message.loops.map((loop) => ({
      name: loop.name ?? "",
      intervalMs: loop.intervalMs ?? 0,
      rounds: loop.rounds ?? 0,
      failures: loop.failures ?? 0,
      lastStartedAtMs: zeroIsAbsent(loop.lastStartedAtMs),
      lastDurationMs: loop.lastDurationMs ?? 0,
      meanDurationMs: loop.meanDurationMs ?? 0,
      error: loop.error ?? "",
    })),
    unavailable: message.unavailable.map((kind) => ({
      provider: kind.provider ?? "",
      instanceType: kind.instanceType ?? "",
      spot: kind.spot ?? false,
      place: [kind.zone ?? "", kind.subnet ?? ""].filter((part) => part !== "").join(" "),
      message: kind.message ?? "",
      sinceMs: kind.sinceMs ?? 0,
      untilMs: kind.untilMs ?? 0,
    })),
    pools: message.pools.map(scalingFromMessage),
    bindings: message.bindings.map(({ demand, node }) => ({ demand: demand ?? "", node: node ?? "" })),
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
    booting: bootingFromMessage(booting),
    troubles: troubles.map(troubleFromMessage),
  };
}

function troubleFromMessage(trouble: muster.node.v1.PoolTrouble.$Properties): PoolTrouble {
  return {
    pool: trouble.pool ?? "",
    code: trouble.code ?? "",
    provider: trouble.provider ?? "",
    instanceType: trouble.instanceType ?? "",
    spot: trouble.spot ?? false,
    zone: trouble.zone ?? "",
    message: trouble.message ?? "",
    sinceMs: trouble.sinceMs ?? 0,
    nextTryAtMs: zeroIsAbsent(trouble.nextTryAtMs),
    boots: trouble.boots ?? 0,
  };
}

function bootingFromMessage(messages: readonly muster.node.v1.BootingNodes.$Properties[] | null | undefined) {
  return (messages ?? []).map(({ instanceType, spot, count, sinceMs }): BootingNodes => {
    return { instanceType: instanceType ?? "", spot: spot ?? false, count: count ?? 0, sinceMs: sinceMs ?? 0 };
  });
}

function zeroIsAbsent(number: number | null | undefined): number | undefined {
  return number === 0 ? undefined : (number ?? undefined);
}
