import { formatElapsed } from "@muster/faults";
import { printAmount } from "@muster/resources";
import { annotations, enums, lowercaseNames, muster } from "@muster/proto";
import { templateRequests, type ComponentTemplate } from "@muster/session-limits";
import type { Holder, PartDemand, Pool, Reservation, ReservationExplanation } from "../domain/reservation.ts";
import { buildJobPhases, outcomeOfJob, type JobEvent } from "../domain/job-phases.ts";
import { plural } from "../domain/plural.ts";
import { buildSpec, type ComponentSpec, type SessionSpec } from "../domain/session-document.ts";
import { conditionsOf, outcomeOf } from "../domain/session-phases.ts";
import { buildShare, type Share } from "../domain/share.ts";
import type { ComponentStatus, Work, WorkEvent } from "../domain/work.ts";
import { pick, unlessDefault } from "./message-fields.ts";

const KINDS = lowercaseNames(enums.ComponentKind);
const STATES = lowercaseNames(enums.ReservationState);

/** The wire form of a spec: what is undefined stays absent, which means the service's default. */
export function specToMessage(spec: SessionSpec): muster.session.v1.SessionSpec.$Properties {
  const components = spec.components.map((component) => ({ ...component, kind: KINDS.numbers[component.kind] }));
  return { ...spec, components };
}

/** The place in a log from which reading continues. */
export type LogPlace = {
  readonly offset: number;
  /** The run of the component in which the offset counts; empty: the only one, or the newest. */
  readonly run: string;
};

/** A part of a log. */
export type LogChunk = {
  readonly bytes: Uint8Array;
  readonly next: LogPlace;
  /** The pod of the log; empty where a component has only one. */
  readonly pod: string;
  /** No more will come. */
  readonly complete: boolean;
  /** The beginning was left out because the log was too long to be kept. */
  readonly truncated: boolean;
};

export function sessionFromMessage(message = muster.session.v1.Session.create()): Work {
  const spec = specFromMessage(message.spec);
  const specs = new Map(spec.components.map((component) => [component.name, component]));
  const events = message.events.map(({ kind, atMs, description, reason }) => {
    return { phase: enums.SessionEventKind.nameOf(kind) ?? ("UNKNOWN" as const), atMs, description, reason };
  });
  return {
    kind: "session",
    ...pick(message, "name", "uid", "revision"),
    spec: buildSpec(spec),
    columns: { machines: message.components.length },
    owner: { kind: "session", id: message.name },
    facts: factsOf(spec),
    events,
    conditions: conditionsOf(events),
    outcome: outcomeOf(events.at(-1)?.phase),
    components: message.components.map((component) => ({
      name: component.name,
      kind: KINDS.nameOf(component.kind) ?? "unknown",
      ...pick(component, "pool", "node", "pod", "podIp", "state", "message", "exitCode"),
      ...shareOfComponent(specs.get(component.name)),
    })),
    resultJson: unlessDefault(message.resultJson),
    warnings: message.warnings.map((warning) => pick(warning, "code", "message")),
    createdAtMs: message.createdAtMs,
    finishedAtMs: unlessDefault(message.finishedAtMs),
    ...pick(message, "cancelRequested", "traceparent", "waitingBecause"),
  };
}

/** The part of a machine that a shared component gets. Services store only templates that were checked. */
function shareOfComponent(component: ComponentSpec | undefined): { readonly shared?: Share } {
  if (component?.shared === undefined || component.templateJson === undefined) return {};
  const template = JSON.parse(component.templateJson) as ComponentTemplate;
  return { shared: buildShare(templateRequests(template)) };
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
export function jobFromMessage(message = muster.job.v1.Job.create()): Work {
  const { spec, cancelRequested } = manifestFrom(message.manifestJson);
  const conditions = message.conditions.map((condition) => ({
    ...pick(condition, "type", "isTrue", "reason", "message"),
    sinceMs: condition.lastTransitionMs,
  }));
  const { state, createdAtMs } = message;
  const members = message.members.map(memberFromMessage);
  const ended = members.filter((member) => member.state === "SUCCEEDED" || member.state === "COMPLETED");
  const kind = message.key?.kind ?? "";
  return {
    kind: kind.toLowerCase(),
    name: message.key?.name ?? "",
    uid: message.uid,
    revision: message.revision,
    spec,
    columns: { type: kind, completed: `${ended.length}/${members.length}`, failures: message.restarts },
    owner: { kind: "job", id: message.ownerId },
    facts: [
      ["kind", kind],
      ["owner", `job/${message.ownerId}`],
      ...message.replicas.map((each): [string, string] => [
        each.type,
        `${plural(each.replicas, "replica")}: ${each.active} active, ${each.ready} ready, ${each.succeeded} succeeded, ${each.failed} failed, ${plural(each.restarts, "restart")}`,
      ]),
    ],
    events: buildJobPhases({ state, createdAtMs, startedAtMs: message.startedAtMs, conditions }),
    conditions,
    outcome: outcomeOfJob(state, conditions),
    components: members,
    resultJson: undefined,
    warnings: [],
    createdAtMs,
    finishedAtMs: unlessDefault(message.finishedAtMs),
    resolution: "seconds",
    cancelRequested,
    traceparent: message.traceparent,
    waitingBecause: message.waitingBecause,
  };
}

function memberFromMessage(member: muster.job.v1.JobMember): ComponentStatus {
  const { component: name, pool, node, pod, state, message } = member;
  const kind = name.replace(/-\d+$/, "");
  return { name, kind, pool, node, ...shareOf(member), pod, podIp: "", state, message, exitCode: undefined };
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

export function jobEventFromMessage(message: muster.job.v1.JobEvent): WorkEvent {
  const { count, object, message: text, type, reason, atMs } = message;
  const description = `${object}: ${text}${count > 1 ? ` (${count} times)` : ""}`;
  return { phase: reason, atMs, description, reason: type === "Normal" ? "" : type };
}

/** The same without a description. */
export function rawEventFromMessage(message: muster.job.v1.JobEvent): JobEvent {
  return pick(message, "atMs", "object", "reason", "message");
}

export function poolFromMessage(message: muster.reservation.v1.Pool): Pool {
  return {
    ...pick(message, "name", "available", "capacity", "held", "unusable"),
    unusableByReason: message.unusableByReason.map((each) => pick(each, "reason", "count")),
    ...pick(message, "waiting", "elasticMax", "shared", "allocatable", "free", "overcommitted", "overcommittedNodes"),
    foreign: message.foreign?.pods ? pick(message.foreign, "pods", "requests") : undefined,
    elasticAtMs: unlessDefault(message.elasticAtMs),
  };
}

export function reservationFromMessage(message = muster.reservation.v1.Reservation.create()): Reservation {
  const { because } = message;
  return {
    id: message.id,
    ownerKind: message.owner?.kind ?? "",
    ownerId: message.owner?.id ?? "",
    state: STATES.nameOf(message.state) ?? "unknown",
    needs: message.needs.map((need) => ({ ...pick(need, "component", "pool"), ...shareOf(need) })),
    machines: message.machines.map((each) => ({ ...pick(each, "component", "pool", "node"), ...shareOf(each) })),
    ...pick(message, "priority", "createdAtMs"),
    grantedAtMs: unlessDefault(message.grantedAtMs),
    because: because && pick(because, "code", "pool", "requested", "parts", "available", "ahead"),
  };
}

function shareOf({ shared }: Pick<muster.reservation.v1.Need, "shared">): { readonly shared?: Share } {
  return shared === undefined ? {} : { shared: buildShare(shared.requests) };
}

export function explanationFromMessage(message: muster.reservation.v1.ExplainReservationReply): ReservationExplanation {
  const { place, hold, concurrency } = message;
  return {
    reservation: reservationFromMessage(message.reservation),
    ...pick(message, "code", "message"),
    pools: message.pools.map((pool) => ({
      ...pick(pool, "pool", "requested", "partsMore", "available", "kept", "capacity", "held", "elasticMax"),
      nodes: unlessDefault(pool.nodes),
      parts: pool.parts.map(partDemandFrom),
      amounts:
        pool.parts.length === 0
          ? undefined
          : { free: buildShare(pool.free), allocatable: buildShare(pool.allocatable) },
      elasticAtMs: unlessDefault(pool.elasticAtMs),
      unusable: pool.unusable,
      unusableNodes: pool.unusableNodes.map(({ node, reason, occupant, foreign, cordoned, taints }) => ({
        node,
        reason: reason === "CORDONED" && !cordoned && taints.length > 0 ? "TAINTED" : reason,
        occupant: foreign ? foreignText(foreign) : ownerText(occupant),
      })),
      unusableMore: pool.unusableMore,
      holders: pool.holders.map(holderFromMessage),
      holdersMore: pool.holdersMore,
    })),
    place: {
      ahead: place?.ahead ?? 0,
      byPriority: (place?.aheadByPriority ?? []).map((each) => pick(each, "priority", "requests")),
    },
    hold: hold && { owner: ownerText(hold.owner), ...pick(hold, "own", "waitingSinceMs") },
    concurrency: concurrency && {
      ...pick(concurrency, "limit", "granted"),
      holders: concurrency.holders.map(holderFromMessage),
    },
  };
}

function partDemandFrom(message: muster.reservation.v1.PartDemand): PartDemand {
  const { part, shortage } = message;
  return {
    part: buildShare(part?.requests ?? {}),
    ...pick(message, "requested", "fitting"),
    shortage: shortage && {
      ...pick(shortage, "node", "placed"),
      resources: shortage.resources.map(({ resource, requested, free }) => ({
        resource,
        requested: printAmount(resource, requested),
        free: printAmount(resource, free),
      })),
    },
  };
}

function holderFromMessage(message: muster.reservation.v1.Holder): Holder {
  return { owner: ownerText(message.owner), ...pick(message, "machines", "parts", "sinceMs") };
}

function ownerText(owner: muster.common.v1.Owner | undefined): string {
  return owner ? `${owner.kind}/${owner.id}` : "";
}

function specFromMessage(message = muster.session.v1.SessionSpec.create()): SessionSpec {
  return {
    components: message.components.map((component) => ({
      name: component.name,
      // Services store no component without a kind.
      kind: KINDS.nameOf(component.kind) ?? "client",
      ...pick(component, "pool", "image", "command", "args"),
      env: component.env.map((variable) => pick(variable, "name", "value")),
      workingDir: unlessDefault(component.workingDir),
      readyPort: unlessDefault(component.readyPort),
      templateJson: unlessDefault(component.templateJson),
      shared: component.shared ? true : undefined,
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

/** Foreign pods: the name of the first one, and the number of the others. */
function foreignText({ pods, examples }: muster.watch.v1.NodeUse): string {
  const [first] = examples;
  if (first === undefined) return plural(pods, "foreign pod");
  return pods === 1 ? `pod ${first}` : `pod ${first} and ${pods - 1} more`;
}
