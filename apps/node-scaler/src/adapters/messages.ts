import { muster, type PropertiesOf } from "@muster/proto";
import { protoCodec, type Codec } from "@muster/store";
import type { WaitingReservation } from "../domain/build-demands.ts";
import type { PoolFacts } from "../domain/build-pool-facts.ts";
import type { PoolTrouble } from "../domain/build-pool-troubles.ts";
import type { Unavailability } from "../domain/demand.ts";
import { STANDINGS, type Machine } from "../domain/sightings.ts";
import type { NodeSpec, Phase, ScaledNode, Termination, TerminationCode } from "../domain/node.ts";

const wire = muster.node.v1;
type WireNode = PropertiesOf<typeof wire.NodeRecord>;
type WirePool = PropertiesOf<typeof wire.PoolScaling>;

const TO_WIRE = {
  Creating: wire.NodePhase.NODE_PHASE_CREATING,
  Created: wire.NodePhase.NODE_PHASE_CREATED,
  Available: wire.NodePhase.NODE_PHASE_AVAILABLE,
  Claimed: wire.NodePhase.NODE_PHASE_CLAIMED,
  Cleaning: wire.NodePhase.NODE_PHASE_CLEANING,
  Terminating: wire.NodePhase.NODE_PHASE_TERMINATING,
  Terminated: wire.NodePhase.NODE_PHASE_TERMINATED,
} as const satisfies Record<Phase, number>;

const FROM_WIRE = new Map<number, Phase>([
  [wire.NodePhase.NODE_PHASE_CREATING, "Creating"],
  [wire.NodePhase.NODE_PHASE_CREATED, "Created"],
  [wire.NodePhase.NODE_PHASE_AVAILABLE, "Available"],
  [wire.NodePhase.NODE_PHASE_CLAIMED, "Claimed"],
  [wire.NodePhase.NODE_PHASE_CLEANING, "Cleaning"],
  [wire.NodePhase.NODE_PHASE_TERMINATING, "Terminating"],
  [wire.NodePhase.NODE_PHASE_TERMINATED, "Terminated"],
]);

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

const messages = protoCodec(wire.NodeRecord);

/** Decoding throws on a phase that this version does not know: a node must not be taken for one in another phase. */
export const nodeCodec: Codec<ScaledNode> = {
  encode: (node) => messages.encode(toWireNode(node)),
  decode: (bytes) => toNode(messages.decode(bytes)),
};

export function toWireNode({ name, spec, status }: ScaledNode): WireNode {
  const { zone, volumeGib, terminate, ...rest } = spec;
  return {
    name,
    spec: {
      ...rest,
      ...(zone !== undefined && { zone }),
      ...(volumeGib !== undefined && { volumeGib }),
      ...(terminate !== undefined && { terminate: { ...terminate } }),
    },
    phase: TO_WIRE[status.phase],
    phaseSinceMs: status.phaseSinceMs,
    instanceId: status.instanceId ?? "",
    kubernetesNode: status.kubernetesNode ?? "",
    addresses: [...status.addresses],
    boundTo: status.boundTo ?? "",
    ...(status.claim !== undefined && {
      holder: status.claim.owner,
      reservationId: status.claim.reservationId,
      reached: status.claim.reached,
    }),
    served: status.served,
    createdAtMs: status.createdAtMs,
    unhealthySinceMs: status.unhealthySinceMs ?? 0,
    idleSinceMs: status.idleSinceMs ?? 0,
    drainingSinceMs: status.drainingSinceMs ?? 0,
    term: status.term,
    trouble: status.trouble ?? "",
  };
}

function toNode(message: muster.node.v1.NodeRecord): ScaledNode {
  const phase = FROM_WIRE.get(message.phase);
  if (phase === undefined) throw new Error(`node ${message.name} has a phase that is not known: ${message.phase}`);
  const { holder, reservationId, reached } = message;
  return {
    name: message.name,
    spec: toSpec(message.spec),
    status: {
      phase,
      phaseSinceMs: message.phaseSinceMs,
      createdAtMs: message.createdAtMs,
      instanceId: textOf(message.instanceId),
      kubernetesNode: textOf(message.kubernetesNode),
      addresses: message.addresses,
      boundTo: textOf(message.boundTo),
      claim:
        holder === null || holder === undefined
          ? undefined
          : { owner: { kind: holder.kind ?? "", id: holder.id ?? "" }, reservationId, reached },
      served: message.served,
      unhealthySinceMs: numberOf(message.unhealthySinceMs),
      idleSinceMs: numberOf(message.idleSinceMs),
      drainingSinceMs: numberOf(message.drainingSinceMs),
      term: message.term,
      trouble: textOf(message.trouble),
    },
  };
}

function toSpec(spec: muster.node.v1.NodeSpec.$Properties | null | undefined): NodeSpec {
  return {
    pool: spec?.pool ?? "",
    provider: spec?.provider ?? "",
    instanceType: spec?.instanceType ?? "",
    bootImage: spec?.bootImage ?? "",
    spot: spec?.spot ?? false,
    zone: textOf(spec?.zone),
    gpus: spec?.gpus ?? 0,
    volumeGib: numberOf(spec?.volumeGib),
    privateIpOnly: spec?.privateIpOnly ?? false,
    terminate: toTermination(spec?.terminate),
  };
}

/** A code that a later version has brought is still an order to end the node. */
function toTermination(message: muster.node.v1.Termination.$Properties | null | undefined): Termination | undefined {
  if (message === null || message === undefined) return undefined;
  const { code = "", message: text, atMs, drainUntilMs, requestId } = message;
  return {
    code: isCode(code) ? code : "REQUESTED",
    message: text ?? "",
    atMs: atMs ?? 0,
    drainUntilMs: drainUntilMs ?? 0,
    ...(requestId !== "" && requestId !== null && requestId !== undefined && { requestId }),
  };
}

function isCode(text: string | null): text is TerminationCode {
  return text !== null && Object.hasOwn(CODES, text);
}

export function toWaiting(message: muster.reservation.v1.Reservation.$Properties): WaitingReservation {
  const { owner, createdAtMs, needs } = message;
  return {
    owner: { kind: owner?.kind ?? "", id: owner?.id ?? "" },
    createdAtMs: createdAtMs ?? 0,
    needs: (needs ?? []).map(({ component, pool }) => ({ component: component ?? "", pool: pool ?? "" })),
  };
}

export function toMachine({
  node,
  pool,
  standing,
  cordoned,
  holder,
}: muster.reservation.v1.MachineState.$Properties): Machine {
  const owner = holder?.owner;
  const reservationId = holder?.reservationId ?? "";
  return {
    node: node ?? "",
    pool: pool ?? "",
    standing: STANDINGS.find((known) => known === standing) ?? "UNKNOWN",
    cordoned: cordoned ?? false,
    holder:
      owner === null || owner === undefined
        ? undefined
        : { owner: { kind: owner.kind ?? "", id: owner.id ?? "" }, reservationId },
  };
}

export function toWirePool({ pool, max, standby, booting, blocked }: PoolFacts, atMs: number): WirePool {
  return {
    pool,
    max,
    standby,
    booting: [...booting],
    blockedCode: blocked?.code ?? "",
    blockedMessage: blocked?.message ?? "",
    atMs,
  };
}

export function toWireUnavailable({ zone, subnet, ...rest }: Unavailability): muster.node.v1.Unavailable.$Properties {
  return { ...rest, zone: zone ?? "", subnet: subnet ?? "" };
}

export function toWireTrouble({
  instanceType,
  zone,
  nextTryAtMs,
  ...rest
}: PoolTrouble): muster.node.v1.PoolTrouble.$Properties {
  return { ...rest, instanceType: instanceType ?? "", zone: zone ?? "", nextTryAtMs: nextTryAtMs ?? 0 };
}

/** On the wire, empty and 0 are absent. */
function textOf(text: string | null | undefined): string | undefined {
  return text === null || text === undefined || text === "" ? undefined : text;
}

function numberOf(number: number | null | undefined): number | undefined {
  return number === null || number === undefined || number === 0 ? undefined : number;
}
