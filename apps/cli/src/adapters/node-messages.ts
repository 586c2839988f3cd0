import { enums, muster } from "@muster/proto";
import { nameOf, pickFields, unlessDefault } from "./message-fields.ts";

/** A node that the node scaler creates or has created. */
export type ScaledNode = ReturnType<typeof toListedNode>;
/** A row of the list of nodes. A node that Muster did not create has only these fields, and the phase STATIC. */
export type ListedNode = Pick<ScaledNode, Exclude<keyof ReturnType<typeof toStaticNode>, "zone">> & Partial<ScaledNode>;
export type MachineState = ReturnType<typeof toMachineState>;
export type BootingNodes = ReturnType<typeof bootingFromMessage>;
export type PoolScaling = ReturnType<typeof toPoolScaling>;
export type PoolTrouble = ReturnType<typeof troubleFromMessage>;
/** The state of the scaler's leader: its current steps and its memory. */
export type ScalerDump = ReturnType<typeof toScalerDump>;
/** The scaler's steps towards the machines that an owner waits for. */
export type DemandScaling =
  | ReturnType<typeof toDemandScaling>
  /** No scaler answered. */
  | { readonly state: "unanswered"; readonly trouble: string };

export function toListedNode(message = muster.node.v1.NodeRecord.create(), machine?: MachineState) {
  const { spec, holder } = message;
  const terminate = spec?.terminate;
  return {
    name: message.name,
    pool: spec?.pool ?? "",
    instanceType: spec?.instanceType ?? "",
    spot: spec?.spot ?? false,
    zone: spec?.zone ?? "",
    /** In millionths of the currency of the file of pools; undefined: the file has no price. */
    pricePerHourMicros: unlessDefault(spec?.pricePerHourMicros ?? 0),
    phase: nameOf(enums.NodePhase, message.phase),
    ...pickFields(message, "phaseSinceMs", "createdAtMs", "instanceId", "kubernetesNode", "addresses", "boundTo"),
    holder: holder ? `${holder.kind}/${holder.id}` : "",
    /** Undefined while no termination is requested. */
    terminate: terminate && {
      ...pickFields(terminate, "code", "message", "atMs"),
      drainUntilMs: unlessDefault(terminate.drainUntilMs),
    },
    unhealthySinceMs: unlessDefault(message.unhealthySinceMs),
    idleSinceMs: unlessDefault(message.idleSinceMs),
    trouble: message.trouble,
    /** Undefined if the node has not joined, or the ledger does not answer. */
    machine,
  };
}

export function toMachineState(message: muster.reservation.v1.MachineState) {
  const { foreign, holder } = message;
  return {
    ...pickFields(message, "node", "pool", "standing", "allocatable", "free", "excess"),
    ...(message.zone !== "" && { zone: message.zone }),
    /** False with the standing CORDONED: it is tainted. Undefined: a ledger that does not report the tolerated standing may not report cordons either. */
    cordoned: message.toleratedStanding === "" ? undefined : message.cordoned,
    holder: holder?.owner === undefined ? "" : `${holder.owner.kind}/${holder.owner.id}`,
    sharedHolders: message.sharedHolders.map(({ owner, sinceMs }) => ({
      owner: `${owner?.kind ?? ""}/${owner?.id ?? ""}`,
      sinceMs,
    })),
    foreign: foreign && pickFields(foreign, "pods", "requests", "examples"),
  };
}

/** A node that the node scaler did not make. */
export function toStaticNode(machine: MachineState) {
  const { node, pool, holder } = machine;
  const phase: string = "STATIC";
  const place = machine.zone === undefined ? {} : { zone: machine.zone };
  return { name: node, pool, phase, kubernetesNode: node, holder, ...place, machine };
}

export function toPoolScaling(message: muster.node.v1.PoolScaling) {
  const { blockedCode, blockedMessage } = message;
  return {
    ...pickFields(message, "pool", "max", "standby"),
    booting: message.booting.map(bootingFromMessage),
    /** The reason why needed nodes are not created; undefined if all are created. */
    blocked: blockedCode ? { code: blockedCode, message: blockedMessage } : undefined,
  };
}

export function toScalerDump(message: muster.node.v1.DumpNodesReply) {
  return {
    ...pickFields(message, "leader", "term", "nodes"),
    loops: message.loops.map((loop) => ({
      ...pickFields(loop, "name", "intervalMs", "rounds", "failures"),
      /** Undefined until the loop has run. */
      lastStartedAtMs: unlessDefault(loop.lastStartedAtMs),
      ...pickFields(loop, "lastDurationMs", "meanDurationMs", "error"),
    })),
    unavailable: message.unavailable.map((kind) => ({
      ...pickFields(kind, "provider", "instanceType", "spot"),
      place: [kind.zone, kind.subnet].filter((part) => part !== "").join(" "),
      ...pickFields(kind, "message", "sinceMs", "untilMs"),
    })),
    pools: message.pools.map(toPoolScaling),
    bindings: message.bindings.map((each) => pickFields(each, "demand", "node")),
    bindingsMore: message.bindingsMore,
    troubles: message.troubles.map(troubleFromMessage),
    undecided: message.undecided,
  };
}

export function toDemandScaling(message: muster.node.v1.ExplainDemandReply) {
  // The scaler knows no need of this owner that it could meet.
  if (!message.known) return { state: "unknown" } as const;
  return {
    state: "known" as const,
    /** `code` is BOOTING, or the reason why no node is created. */
    ...pickFields(message, "code", "message"),
    booting: message.booting.map(bootingFromMessage),
    troubles: message.troubles.map(troubleFromMessage),
  };
}

function troubleFromMessage(trouble: muster.node.v1.PoolTrouble) {
  return {
    ...pickFields(trouble, "pool", "code", "provider", "instanceType", "spot", "zone", "message", "sinceMs"),
    /** Undefined if the scaler retries as soon as a node is needed. */
    nextTryAtMs: unlessDefault(trouble.nextTryAtMs),
    boots: trouble.boots,
  };
}

function bootingFromMessage(message: muster.node.v1.BootingNodes) {
  return pickFields(message, "instanceType", "spot", "count", "sinceMs");
}
