import { formatElapsed } from "@muster/faults";
import { annotations, enums, muster } from "@muster/proto";
import { computeTemplateRequests, type ComponentTemplate } from "@muster/session-limits";
import { buildJobPhases, findJobOutcome, type JobEvent } from "../domain/job-phases.ts";
import { formatCount } from "../domain/plural.ts";
import { buildSpec } from "../domain/session-document.ts";
import { listConditions, findOutcome } from "../domain/session-phases.ts";
import { buildShare, type Share } from "../domain/share.ts";
import type { ComponentStatus, Work, WorkEvent } from "../domain/work.ts";
import { pickFields, unlessDefault } from "./message-fields.ts";
import { toShare } from "./reservation-messages.ts";
import { KINDS, toSpec, type ComponentSpec, type SessionSpec } from "./session-spec-messages.ts";

/** The position in a log at which reading continues. */
export type LogPlace = {
  readonly offset: number;
  /** The run of the component in which the offset counts; empty if the component has one run, or for the newest. */
  readonly run: string;
};

/** A part of a log. */
export type LogChunk = {
  readonly bytes: Uint8Array;
  readonly next: LogPlace;
  /** The pod of the log; empty if a component has only one pod. */
  readonly pod: string;
  /** The log is complete: the component writes no more. */
  readonly complete: boolean;
  /** The beginning is missing because the log exceeded the size that is kept. */
  readonly truncated: boolean;
};

export function toSession(message = muster.session.v1.Session.create()): Work {
  const spec = toSpec(message.spec);
  const specs = new Map(spec.components.map((component) => [component.name, component]));
  const events = message.events.map(({ kind, atMs, description, reason }) => {
    return { phase: enums.SessionEventKind.nameOf(kind) ?? ("UNKNOWN" as const), atMs, description, reason };
  });
  const isGranted = events.some(({ phase }) => phase === "ACCEPT");
  return {
    kind: "session",
    ...pickFields(message, "name", "uid", "revision"),
    spec: buildSpec(spec),
    columns: { machines: message.components.length },
    owner: { kind: "session", id: message.name },
    facts: factsOf(spec),
    events,
    conditions: listConditions(events),
    outcome: findOutcome(events.at(-1)?.phase),
    components: message.components.map((component) => ({
      name: component.name,
      kind: KINDS.nameOf(component.kind) ?? "unknown",
      ...pickFields(component, "pool", "node", "pod", "podIp", "state", "message", "exitCode"),
      ...(isGranted ? {} : otherPoolsOf(specs.get(component.name))),
      ...shareOfComponent(specs.get(component.name)),
    })),
    resultJson: unlessDefault(message.resultJson),
    warnings: message.warnings.map((warning) => pickFields(warning, "code", "message")),
    createdAtMs: message.createdAtMs,
    finishedAtMs: unlessDefault(message.finishedAtMs),
    ...pickFields(message, "cancelRequested", "traceparent", "waitingBecause"),
  };
}

function otherPoolsOf(component: ComponentSpec | undefined): Pick<ComponentStatus, "otherPools"> {
  const { otherPools = [] } = component ?? {};
  return otherPools.length === 0 ? {} : { otherPools };
}

/** Reads the part of a machine that a shared component gets. Services store only validated templates. */
function shareOfComponent(component: ComponentSpec | undefined): { readonly shared?: Share } {
  if (component?.shared === undefined || component.templateJson === undefined) return {};
  const template = JSON.parse(component.templateJson) as ComponentTemplate;
  return { shared: buildShare(computeTemplateRequests(template)) };
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

/** Converts a job of any kind. The kind is the lower-case form of that in documents: `tfjob`. */
export function toJob(message = muster.job.v1.Job.create()): Work {
  const { spec, cancelRequested } = manifestFrom(message.manifestJson);
  const conditions = message.conditions.map((condition) => ({
    ...pickFields(condition, "type", "isTrue", "reason", "message"),
    sinceMs: condition.lastTransitionMs,
  }));
  const { state, createdAtMs } = message;
  const members = message.members.map(memberFromMessage);
  const ended = members.filter((member) => member.state === "SUCCEEDED" || member.state === "COMPLETED");
  const kind = message.key?.kind ?? "";
  return {
    kind: kind.toLowerCase(),
    name: message.key?.name ?? "",
    ...(message.key?.namespace && { namespace: message.key.namespace }),
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
        `${formatCount(each.replicas, "replica")}: ${each.active} active, ${each.ready} ready, ${each.succeeded} succeeded, ${each.failed} failed, ${formatCount(each.restarts, "restart")}`,
      ]),
    ],
    events: buildJobPhases({ state, createdAtMs, startedAtMs: message.startedAtMs, conditions }),
    conditions,
    outcome: findJobOutcome(state, conditions),
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
  return { name, kind, pool, node, ...toShare(member), pod, podIp: "", state, message, exitCode: undefined };
}

/** Reads fields of the custom resource, if the reply includes it. */
function manifestFrom(json: string): { readonly spec: Record<string, unknown>; readonly cancelRequested: boolean } {
  // The job controller writes this JSON from the API server's own representation.
  const manifest = (json === "" ? {} : JSON.parse(json)) as {
    spec?: Record<string, unknown>;
    metadata?: { annotations?: Record<string, string> };
  };
  const cancelRequested = manifest.metadata?.annotations?.[annotations.cancelled] !== undefined;
  return { spec: manifest.spec ?? {}, cancelRequested };
}

export function toJobEvent(message: muster.job.v1.JobEvent): WorkEvent {
  const { object, message: text, type, reason, atMs } = message;
  const description = `${object}: ${text}${repeatText(message)}`;
  return { phase: reason, atMs, description, reason: type === "Normal" ? "" : type };
}

/** Formats ` (x3 over 5m00s)` like kubectl; empty for the first occurrence. */
function repeatText({ count, firstAtMs, atMs }: muster.job.v1.JobEvent): string {
  if (count <= 1) return "";
  return firstAtMs > 0 && firstAtMs < atMs
    ? ` (x${count} over ${formatElapsed(atMs - firstAtMs, "seconds")})`
    : ` (x${count})`;
}

/** Reads an event without its description. */
export function toRawEvent(message: muster.job.v1.JobEvent): JobEvent {
  return pickFields(message, "atMs", "object", "reason", "message");
}
