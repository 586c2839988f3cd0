import { toCapitalizedNames, enums, muster, type EnumTable } from "@muster/proto";
import { compactNodeSelection } from "@muster/resources";
import { makeProtoCodec, type Codec } from "@muster/store";
import type { WaitingReservation } from "../domain/build-demands.ts";
import type { PoolFacts } from "../domain/build-pool-facts.ts";
import { STANDINGS, type Holder, type Machine, type MachineStanding } from "../domain/sightings.ts";
import {
  TROUBLE_CODES,
  type NodeSpec,
  type NodeTrouble,
  type NodePhase,
  type ScaledNode,
  type Termination,
  type TerminationCode,
} from "../domain/node.ts";

const wire = muster.node.v1;

const PHASES: EnumTable<NodePhase> = toCapitalizedNames(enums.NodePhase);

const CODES: Readonly<Record<TerminationCode, true>> = {
  IDLE: true,
  UNHEALTHY: true,
  BOOT_FAILED: true,
  BOOT_TIMEOUT: true,
  SPOT_NOTICE: true,
  VANISHED: true,
  RESTARTED: true,
  RETURNED: true,
  POOL_REMOVED: true,
  REQUESTED: true,
};

const messages = makeProtoCodec(wire.NodeRecord);

/** Decoding throws on a phase that this version does not know, because a node must not be mistaken for one in another phase. */
export const nodeCodec: Codec<ScaledNode> = {
  encode: (node) => messages.encode(toWireNode(node)),
  decode: (bytes) => toNode(messages.decode(bytes)),
};

export function toWireNode({ name, spec, status }: ScaledNode): muster.node.v1.NodeRecord.$Properties {
  const { phase, claim, trouble, ...rest } = status;
  return {
    name,
    spec,
    ...rest,
    phase: PHASES.numbers[phase],
    holder: claim?.owner,
    reservationId: claim?.reservationId,
    reached: claim?.reached,
    trouble: trouble?.message,
    troubleCode: trouble?.code,
  };
}

function toNode(message: muster.node.v1.NodeRecord): ScaledNode {
  const phase = PHASES.nameOf(message.phase);
  if (phase === undefined) throw new Error(`node ${message.name} has an unknown phase: ${message.phase}`);
  const { holder, reservationId, reached } = message;
  return {
    name: message.name,
    spec: toSpec(message.spec),
    status: {
      phase,
      phaseSinceMs: message.phaseSinceMs,
      createdAtMs: message.createdAtMs,
      instanceId: readText(message.instanceId),
      kubernetesNode: readText(message.kubernetesNode),
      addresses: message.addresses,
      boundTo: readText(message.boundTo),
      claim: holder && { owner: { kind: holder.kind, id: holder.id }, reservationId, reached },
      served: message.served,
      unhealthySinceMs: readNumber(message.unhealthySinceMs),
      idleSinceMs: readNumber(message.idleSinceMs),
      drainingSinceMs: readNumber(message.drainingSinceMs),
      term: message.term,
      trouble: toTrouble(message),
    },
  };
}

function toTrouble({ trouble: message, troubleCode }: muster.node.v1.NodeRecord): NodeTrouble | undefined {
  if (message === "") return undefined;
  return { code: TROUBLE_CODES.find((code) => code === troubleCode) ?? "UNKNOWN", message };
}

function toSpec(spec = wire.NodeSpec.create()): NodeSpec {
  return {
    pool: spec.pool,
    provider: spec.provider,
    instanceType: spec.instanceType,
    bootImage: spec.bootImage,
    spot: spec.spot,
    zone: readText(spec.zone),
    gpus: spec.gpus,
    volumeGib: readNumber(spec.volumeGib),
    privateIpOnly: spec.privateIpOnly,
    terminate: spec.terminate && toTermination(spec.terminate),
    pricePerHourMicros: readNumber(spec.pricePerHourMicros),
  };
}

/** An unknown code of a later version is still an order to end the node. */
function toTermination({ code, message, atMs, drainUntilMs, requestId }: muster.node.v1.Termination): Termination {
  return {
    code: isCode(code) ? code : "REQUESTED",
    message,
    atMs,
    drainUntilMs,
    ...(requestId !== "" && { requestId }),
  };
}

function isCode(text: string): text is TerminationCode {
  return Object.hasOwn(CODES, text);
}

export function toWaiting(message: muster.reservation.v1.Reservation): WaitingReservation {
  const { owner, createdAtMs, needs, topology } = message;
  const nodeSelections = message.nodeSelections.map(compactNodeSelection);
  return {
    owner: { kind: owner?.kind ?? "", id: owner?.id ?? "" },
    createdAtMs,
    ...(topology !== "" && { topology }),
    needs: needs.map(({ component, pool, poolList, shared, nodeSelection }) => {
      const list = message.poolLists[poolList - 1];
      const selection = nodeSelections[nodeSelection - 1];
      return {
        component,
        pool,
        ...(list && { otherPools: list.pools }),
        ...(shared && { shared: new Map(Object.entries(shared.requests)) }),
        ...(selection && { selection }),
      };
    }),
  };
}

export function toMachine(message: muster.reservation.v1.MachineState): Machine {
  const { node, pool, standing, toleratedStanding, taints, cordoned, holder } = message;
  const { sharedHolders, allocatable, free } = message;
  return {
    node,
    pool,
    standing: toStanding(standing),
    toleratedStanding: toStanding(toleratedStanding === "" ? standing : toleratedStanding),
    taints: taints.map(({ key, value, effect }) => ({ key, value, effect })),
    cordoned,
    holder: holder && toHolder(holder),
    sharedHolders: sharedHolders.flatMap((each) => toHolder(each) ?? []),
    allocatable: new Map(Object.entries(allocatable)),
    free: new Map(Object.entries(free)),
  };
}

function toStanding(text: string): MachineStanding {
  return STANDINGS.find((known) => known === text) ?? "UNKNOWN";
}

function toHolder({ owner, reservationId }: muster.reservation.v1.Holder): Holder | undefined {
  return owner && { owner: { kind: owner.kind, id: owner.id }, reservationId };
}

export function toWirePool(
  { pool, max, standby, booting, blocked }: PoolFacts,
  atMs: number,
): muster.node.v1.PoolScaling.$Properties {
  return { pool, max, standby, booting, blockedCode: blocked?.code, blockedMessage: blocked?.message, atMs };
}

/** Maps empty and 0 of the wire format to undefined. */
function readText(text: string): string | undefined {
  return text === "" ? undefined : text;
}

function readNumber(number: number): number | undefined {
  return number === 0 ? undefined : number;
}
