import { annotations, muster } from "@muster/proto";
import type { Holder, Pool, Reservation, ReservationExplanation } from "../domain/reservation.ts";
import { formatElapsed } from "../domain/duration.ts";
import { buildJobPhases, outcomeOfJob, type ToldEvent } from "../domain/job-phases.ts";
import { plural } from "../domain/plural.ts";
import { buildSpec, type ComponentKind, type SessionSpec } from "../domain/session-document.ts";
import { conditionsOf, outcomeOf, type Phase } from "../domain/session-phases.ts";
import type { ComponentStatus, Work, WorkEvent } from "../domain/work.ts";

type Wire = typeof muster.session.v1;
type SpecMessage = ConstructorParameters<Wire["SessionSpec"]>[0];
type SessionMessage = NonNullable<ConstructorParameters<Wire["Session"]>[0]>;
type JobMessage = muster.job.v1.Job.$Properties;
type PoolMessage = NonNullable<ConstructorParameters<typeof muster.reservation.v1.Pool>[0]>;
type ExplanationMessage = muster.reservation.v1.ExplainReservationReply.$Properties;
type ReservationMessage = NonNullable<ConstructorParameters<typeof muster.reservation.v1.Reservation>[0]>;

const { ComponentKind: WireKind, SessionEventKind: WireEvent } = muster.session.v1;
const { ReservationState } = muster.reservation.v1;

const KIND_TO_WIRE = {
  driver: WireKind.COMPONENT_KIND_DRIVER,
  server: WireKind.COMPONENT_KIND_SERVER,
  client: WireKind.COMPONENT_KIND_CLIENT,
} as const satisfies Record<ComponentKind, number>;

const KIND_FROM_WIRE = new Map<number, ComponentKind>([
  [WireKind.COMPONENT_KIND_DRIVER, "driver"],
  [WireKind.COMPONENT_KIND_SERVER, "server"],
  [WireKind.COMPONENT_KIND_CLIENT, "client"],
]);

const PHASE_FROM_WIRE = new Map<number, Phase>([
  [WireEvent.SESSION_EVENT_KIND_QUEUE, "QUEUE"],
  [WireEvent.SESSION_EVENT_KIND_ACCEPT, "ACCEPT"],
  [WireEvent.SESSION_EVENT_KIND_PROVISION, "PROVISION"],
  [WireEvent.SESSION_EVENT_KIND_RUN, "RUN"],
  [WireEvent.SESSION_EVENT_KIND_DONE, "DONE"],
  [WireEvent.SESSION_EVENT_KIND_ERROR, "ERROR"],
  [WireEvent.SESSION_EVENT_KIND_CANCELLED, "CANCELLED"],
  [WireEvent.SESSION_EVENT_KIND_INTERNAL_ERROR, "INTERNAL_ERROR"],
]);

const STATE_FROM_WIRE = new Map<number, Reservation["state"]>([
  [ReservationState.RESERVATION_STATE_WAITING, "waiting"],
  [ReservationState.RESERVATION_STATE_GRANTED, "granted"],
]);

/** The wire form of a spec: what is undefined stays absent, which means the service's default. */
export function specToMessage(spec: SessionSpec): NonNullable<SpecMessage> {
  return {
    components: spec.components.map((component) => ({
      name: component.name,
      kind: KIND_TO_WIRE[component.kind],
      pool: component.pool,
      image: component.image,
      command: [...component.command],
      args: [...component.args],
      env: component.env.map(({ name, value }) => ({ name, value })),
      workingDir: component.workingDir ?? "",
      readyPort: component.readyPort ?? 0,
      templateJson: component.templateJson ?? "",
    })),
    scenarioJson: spec.scenarioJson ?? "",
    timeoutMs: spec.timeoutMs ?? 0,
    queueTimeoutMs: spec.queueTimeoutMs ?? 0,
    ttlMs: spec.ttlMs ?? 0,
    killAfterMs: spec.killAfterMs ?? 0,
    priority: spec.priority ?? 0,
    workerPort: spec.workerPort ?? 0,
  };
}

/** Where to go on in what a component writes. */
export type LogPlace = {
  readonly offset: number;
  /** In which life of the component the offset counts, as its kind says it; empty: in the only one, or the newest. */
  readonly run: string;
};

/** A part of what a component wrote. */
export type LogChunk = {
  readonly bytes: Uint8Array;
  readonly next: LogPlace;
  /** That wrote it, or will; empty where a component has only one in its life. */
  readonly pod: string;
  /** No more will come. */
  readonly complete: boolean;
  /** The beginning was left out because the log was too long to be kept. */
  readonly truncated: boolean;
};

export function sessionFromMessage(message: SessionMessage): Work {
  const spec = specFromMessage(message.spec ?? {});
  const events = (message.events ?? []).map((event) => ({
    phase: PHASE_FROM_WIRE.get(event.kind ?? 0) ?? "UNKNOWN",
    atMs: event.atMs ?? 0,
    description: event.description ?? "",
    reason: event.reason ?? "",
  }));
  return {
    kind: "session",
    name: message.name ?? "",
    uid: message.uid ?? "",
    revision: message.revision ?? 0,
    spec: buildSpec(spec),
    columns: { machines: message.components?.length ?? 0 },
    owner: { kind: "session", id: message.name ?? "" },
    facts: factsOf(spec),
    events,
    conditions: conditionsOf(events),
    outcome: outcomeOf(events.at(-1)?.phase),
    components: (message.components ?? []).map((component) => ({
      name: component.name ?? "",
      kind: KIND_FROM_WIRE.get(component.kind ?? 0) ?? "unknown",
      pool: component.pool ?? "",
      node: component.node ?? "",
      pod: component.pod ?? "",
      podIp: component.podIp ?? "",
      state: component.state ?? "",
      message: component.message ?? "",
      exitCode: component.exitCode ?? undefined,
    })),
    resultJson: unlessDefault(message.resultJson),
    warnings: (message.warnings ?? []).map((warning) => ({
      code: warning.code ?? "",
      message: warning.message ?? "",
    })),
    createdAtMs: message.createdAtMs ?? 0,
    finishedAtMs: unlessDefault(message.finishedAtMs),
    cancelRequested: message.cancelRequested ?? false,
    traceparent: message.traceparent ?? "",
    waitingBecause: message.waitingBecause ?? "",
    waitingCode: message.waitingCode ?? "",
  };
}

function factsOf(spec: SessionSpec): [string, string][] {
  const elapsed = (ms: number | undefined): string => (ms === undefined ? "-" : formatElapsed(ms));
  return [
    ["timeout", elapsed(spec.timeoutMs)],
    ["queue timeout", elapsed(spec.queueTimeoutMs)],
    ["kept for", elapsed(spec.ttlMs)],
    ["priority", String(spec.priority ?? 0)],
    ["scenario", spec.scenarioJson ?? "-"],
  ];
}

/** A job of any kind. Kinds are named as in documents, in small letters: `tfjob`. */
export function jobFromMessage(message: JobMessage): Work {
  const { spec, cancelRequested } = manifestFrom(message.manifestJson ?? "");
  const conditions = (message.conditions ?? []).map((condition) => ({
    type: condition.type ?? "",
    isTrue: condition.isTrue ?? false,
    reason: condition.reason ?? "",
    message: condition.message ?? "",
    sinceMs: condition.lastTransitionMs ?? 0,
  }));
  const state = message.state ?? "UNKNOWN";
  const createdAtMs = message.createdAtMs ?? 0;
  const members = (message.members ?? []).map(memberFromMessage);
  const ended = members.filter((member) => member.state === "SUCCEEDED" || member.state === "COMPLETED");
  const kind = message.key?.kind ?? "";
  return {
    kind: kind.toLowerCase(),
    name: message.key?.name ?? "",
    uid: message.uid ?? "",
    revision: message.revision ?? "",
    spec,
    columns: { type: kind, completed: `${ended.length}/${members.length}`, failures: message.restarts ?? 0 },
    owner: { kind: "job", id: message.ownerId ?? "" },
    facts: [
      ["kind", kind],
      ["owner", `job/${message.ownerId ?? ""}`],
      ...(message.replicas ?? []).map((each): [string, string] => [
        each.type ?? "",
        `${plural(each.replicas ?? 0, "replica")}: ${each.active ?? 0} active, ${each.ready ?? 0} ready, ${each.succeeded ?? 0} succeeded, ${each.failed ?? 0} failed, ${plural(each.restarts ?? 0, "failure")} so far`,
      ]),
    ],
    events: buildJobPhases({ state, createdAtMs, startedAtMs: message.startedAtMs ?? 0, conditions }),
    conditions,
    outcome: outcomeOfJob(state, conditions),
    components: members,
    resultJson: undefined,
    warnings: [],
    createdAtMs,
    finishedAtMs: unlessDefault(message.finishedAtMs),
    resolution: "seconds",
    cancelRequested,
    traceparent: message.traceparent ?? "",
    waitingBecause: message.waitingBecause ?? "",
  };
}

function memberFromMessage(message: muster.job.v1.JobMember.$Properties): ComponentStatus {
  const name = message.component ?? "";
  return {
    name,
    kind: name.replace(/-\d+$/, ""),
    pool: message.pool ?? "",
    node: message.node ?? "",
    pod: message.pod ?? "",
    podIp: "",
    state: message.state ?? "",
    message: message.message ?? "",
    exitCode: undefined,
  };
}

/** What the custom resource says, where the reply has it. */
function manifestFrom(json: string): { readonly spec: Record<string, unknown>; readonly cancelRequested: boolean } {
  // The job controller writes it: the API server's own form of the resource.
  const manifest = (json === "" ? {} : JSON.parse(json)) as {
    spec?: Record<string, unknown>;
    metadata?: { annotations?: Record<string, string> };
  };
  const cancelRequested = manifest.metadata?.annotations?.[annotations.cancelled] !== undefined;
  return { spec: manifest.spec ?? {}, cancelRequested };
}

export function jobEventFromMessage(message: muster.job.v1.JobEvent.$Properties): WorkEvent {
  const count = message.count ?? 1;
  const description = `${message.object ?? ""}: ${message.message ?? ""}${count > 1 ? ` (${count} times)` : ""}`;
  const type = message.type ?? "Normal";
  return { phase: message.reason ?? "", atMs: message.atMs ?? 0, description, reason: type === "Normal" ? "" : type };
}

/** The same as it was told. */
export function toldEventFrom({ atMs, object, reason, message }: muster.job.v1.JobEvent.$Properties): ToldEvent {
  return { atMs: atMs ?? 0, object: object ?? "", reason: reason ?? "", message: message ?? "" };
}

export function poolFromMessage(message: PoolMessage): Pool {
  return {
    name: message.name ?? "",
    available: message.available ?? 0,
    capacity: message.capacity ?? 0,
    held: message.held ?? 0,
    unusable: message.unusable ?? 0,
    unusableByReason: (message.unusableByReason ?? []).map(({ reason, count }) => ({
      reason: reason ?? "",
      count: count ?? 0,
    })),
    waiting: message.waiting ?? 0,
    elasticMax: message.elasticMax ?? 0,
    elasticAtMs: unlessDefault(message.elasticAtMs),
  };
}

export function reservationFromMessage(message: ReservationMessage): Reservation {
  const { because } = message;
  return {
    id: message.id ?? "",
    ownerKind: message.owner?.kind ?? "",
    ownerId: message.owner?.id ?? "",
    state: STATE_FROM_WIRE.get(message.state ?? 0) ?? "unknown",
    needs: (message.needs ?? []).map(({ component, pool }) => ({ component: component ?? "", pool: pool ?? "" })),
    machines: (message.machines ?? []).map(({ component, pool, node }) => ({
      component: component ?? "",
      pool: pool ?? "",
      node: node ?? "",
    })),
    priority: message.priority ?? 0,
    createdAtMs: message.createdAtMs ?? 0,
    grantedAtMs: unlessDefault(message.grantedAtMs),
    because: because
      ? {
          code: because.code ?? "",
          pool: because.pool ?? "",
          requested: because.requested ?? 0,
          available: because.available ?? 0,
          ahead: because.ahead ?? 0,
        }
      : undefined,
  };
}

export function explanationFromMessage(message: ExplanationMessage): ReservationExplanation {
  const { place, hold, concurrency } = message;
  return {
    reservation: reservationFromMessage(message.reservation ?? {}),
    code: message.code ?? "",
    message: message.message ?? "",
    pools: (message.pools ?? []).map((pool) => ({
      pool: pool.pool ?? "",
      requested: pool.requested ?? 0,
      available: pool.available ?? 0,
      kept: pool.kept ?? 0,
      capacity: pool.capacity ?? 0,
      held: pool.held ?? 0,
      elasticMax: pool.elasticMax ?? 0,
      elasticAtMs: unlessDefault(pool.elasticAtMs),
      unusable: pool.unusable ?? 0,
      unusableNodes: (pool.unusableNodes ?? []).map(({ node, reason, occupant }) => ({
        node: node ?? "",
        reason: reason ?? "",
        occupant: ownerText(occupant),
      })),
      unusableMore: pool.unusableMore ?? 0,
      holders: (pool.holders ?? []).map(holderFromMessage),
      holdersMore: pool.holdersMore ?? 0,
    })),
    place: {
      ahead: place?.ahead ?? 0,
      byPriority: (place?.aheadByPriority ?? []).map(({ priority, requests }) => ({
        priority: priority ?? 0,
        requests: requests ?? 0,
      })),
    },
    hold: hold
      ? { owner: ownerText(hold.owner), own: hold.own ?? false, waitingSinceMs: hold.waitingSinceMs ?? 0 }
      : undefined,
    concurrency: concurrency
      ? {
          limit: concurrency.limit ?? 0,
          granted: concurrency.granted ?? 0,
          holders: (concurrency.holders ?? []).map(holderFromMessage),
        }
      : undefined,
  };
}

function holderFromMessage({ owner, machines, sinceMs }: muster.reservation.v1.Holder.$Properties): Holder {
  return { owner: ownerText(owner), machines: machines ?? 0, sinceMs: sinceMs ?? 0 };
}

function ownerText(owner: muster.common.v1.Owner.$Properties | null | undefined): string {
  return owner ? `${owner.kind ?? ""}/${owner.id ?? ""}` : "";
}

function specFromMessage(message: NonNullable<SpecMessage>): SessionSpec {
  return {
    components: (message.components ?? []).map((component) => ({
      name: component.name ?? "",
      // Services store no component without a kind.
      kind: KIND_FROM_WIRE.get(component.kind ?? 0) ?? "client",
      pool: component.pool ?? "",
      image: component.image ?? "",
      command: component.command ?? [],
      args: component.args ?? [],
      env: (component.env ?? []).map(({ name, value }) => ({ name: name ?? "", value: value ?? "" })),
      workingDir: unlessDefault(component.workingDir),
      readyPort: unlessDefault(component.readyPort),
      templateJson: unlessDefault(component.templateJson),
    })),
    scenarioJson: unlessDefault(message.scenarioJson),
    timeoutMs: unlessDefault(message.timeoutMs),
    queueTimeoutMs: unlessDefault(message.queueTimeoutMs),
    ttlMs: unlessDefault(message.ttlMs),
    killAfterMs: unlessDefault(message.killAfterMs),
    priority: unlessDefault(message.priority),
    workerPort: unlessDefault(message.workerPort),
  };
}

/** protobuf's zero means "not set" in these fields. */
function unlessDefault<Value extends string | number>(value: Value | null | undefined): Value | undefined {
  return value === null || value === undefined || value === 0 || value === "" ? undefined : value;
}
