import { randomUUID } from "node:crypto";
import { makeDeadline } from "@muster/backoff";
import { describeFault, findFault, type Fault } from "@muster/faults";
import {
  askMachines,
  describeRefusal,
  makeLedgerCalls,
  type MachineAnswers,
  type ExplainCalls,
  type LedgerCalls,
  type Reservation,
  type ReservationCalls,
} from "@muster/ledger-client";
import { QUEUE_UNKNOWN, type QueueChoice } from "@muster/ledger-client/choose-queue";
import { canOccupy } from "@muster/names";
import { MAX_LOGS_MS } from "../config.ts";
import { decideSessionRelease } from "../domain/decide-session-release.ts";
import { avoidNodes, buildNodeSelectionKey, withoutMinimum, type PodDefaults, type Requests } from "@muster/resources";
import { inDomain, buildComponentNeed, type ComponentNeed } from "../domain/component-need.ts";
import type { ActStep } from "../domain/session-steps.ts";
import type { OwnedObject } from "../domain/plan-sweep.ts";
import { REPLACEMENT_KIND, buildReplacementId, SESSION_KIND } from "../domain/replacement-owner.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { ReservationSeen, WaitReason } from "../domain/snapshot.ts";
import type { LogsRead } from "../domain/transition-record.ts";
import type { StepResult, CollectStep, QuickStep } from "../session-deps.ts";
import { collectLogs, type LogReading } from "./collect-logs.ts";
import { createPod, type CreatePodDeps } from "./create-pod.ts";
import { isRefusal, toOwnedReplacement, toOwnedReservation, toReservationSeen, toWaitReason } from "./messages.ts";
import type { PodLogs } from "./pod-logs.ts";
import type { SessionPods } from "./pods.ts";
import type { ChooseQueue } from "./queues.ts";
import { runInStepSpan } from "./trace.ts";

export type ActDeps = CreatePodDeps & {
  readonly ledger: SessionLedger;
  readonly pods: SessionPods;
  readonly reading: Omit<LogReading, "deadline" | "logs">;
  /** Returns access to the logs of pods in the namespace; absent: MUSTER_NAMESPACE. */
  readonly logsIn: (namespace?: string) => PodLogs;
  readonly maxExecutors: number;
  /** Returns the requests that admission currently adds to pods of the namespace; an absent namespace is MUSTER_NAMESPACE. Absent function: no additions. */
  readonly podDefaults?: (namespace?: string) => PodDefaults;
  readonly chooseQueue: ChooseQueue;
};

/** The ledger calls for sessions, and for components that have a replacement machine. */
export type SessionLedger = {
  readonly sessions: LedgerCalls;
  readonly replacements: LedgerCalls;
  /** Sets the maximum number of sessions that hold machines; the ledger grants no machines above it. */
  readonly limitSessions: (limit: number) => Promise<void>;
};

export function makeSessionLedger(calls: ReservationCalls): SessionLedger {
  return {
    sessions: makeLedgerCalls(calls, SESSION_KIND),
    replacements: makeLedgerCalls(calls, REPLACEMENT_KIND),
    limitSessions: async (limit) => {
      await calls.limitConcurrency({ requestId: randomUUID(), ownerKind: SESSION_KIND, limit });
    },
  };
}

/** Executes one step of a session. Steps may be repeated, because names, owners and uids identify their effects. */
export function performStep(
  deps: ActDeps,
  record: SessionRecord,
  step: QuickStep,
  isHeld: () => boolean,
): Promise<StepResult> {
  return runInStepSpan(record, step, async (): Promise<StepResult> => {
    switch (step.kind) {
      case "reserve":
        return { kind: "reservation", reservation: await reserve(deps, record) };
      case "create-pod":
        return createPod(deps, record, step, isHeld);
      case "delete-pod":
        await deps.pods.delete(step.pod, step.uid, {
          force: step.force,
          namespace: record.elsewhere?.namespace,
          ...("resourceVersion" in step ? { resourceVersion: step.resourceVersion } : {}),
        });
        return { kind: "nothing" };
      case "release":
        await releaseReplacements(deps.ledger, record);
        await releaseOwn(deps.ledger, record);
        return { kind: "outcome", outcome: { kind: "released" } };
      case "reserve-replacement": {
        const reservation = await reserveReplacement(deps, record, step);
        return { kind: "replacement", component: step.component, reservation };
      }
      case "release-replacement":
        await releaseReplacement(deps.ledger, record, step);
        return { kind: "replacement", component: step.component, reservation: { state: "released" } };
    }
  });
}

/** Implements `collectLogs` of the session dependencies. */
export function collectSessionLogs(
  deps: ActDeps,
  record: SessionRecord,
  step: CollectStep,
  onRead: (read: LogsRead) => void,
  signal: AbortSignal,
): Promise<void> {
  return runInStepSpan(record, step, async () => {
    using over = makeDeadline(MAX_LOGS_MS, [signal]);
    const logs = deps.logsIn(record.elsewhere?.namespace);
    await collectLogs({ ...deps.reading, logs, deadline: over.signal }, record, step.pods, onRead);
  });
}

/** Lists the objects that a session may leave behind: pods, reservations and replacement machines. */
export async function listOwned(
  { pods, ledger }: Pick<ActDeps, "pods" | "ledger">,
  options: { readonly everywhere: boolean },
): Promise<OwnedObject[]> {
  const owned: OwnedObject[] = await pods.ofAllSessions(options);
  for await (const page of ledger.sessions.list()) owned.push(...page.reservations.map(toOwnedReservation));
  for await (const page of ledger.replacements.list()) owned.push(...page.reservations.map(toOwnedReplacement));
  return owned;
}

/** Timeout of explanations: a caller that only reads a session does not wait longer for one. */
const EXPLAIN_TIMEOUT_MS = 1000;

type ExplainDeps = Pick<ActDeps, "ledger" | "podDefaults" | "chooseQueue"> & {
  readonly podPolicy: Pick<ActDeps["podPolicy"], "poolLabel">;
};

/** Builds the wait reason of a session without a usable queue. */
function unqueued(code: WaitReason["code"], text: string): WaitReason {
  return { code, pool: "", requested: 0, available: 0, ahead: 0, text };
}

function textOf(choice: Exclude<QueueChoice, { readonly kind: "queue" | "none" }>): string {
  return choice.kind === "unknown" ? choice.message : "the queues are not known yet";
}

/**
 * Returns why a session without a reservation would wait for its machines; undefined if the ledger would grant them now. Rejects with the fault with which the
 * session would end, or if the ledger is unavailable.
 */
export async function checkMachines(
  { ledger: { sessions }, podPolicy, podDefaults, chooseQueue }: ExplainDeps,
  record: SessionRecord,
): Promise<WaitReason | undefined> {
  const options = { timeoutMs: EXPLAIN_TIMEOUT_MS };
  const choice = await chooseQueue(record.spec.queue, { ...options, ...inNamespace(record) });
  if (choice.kind !== "queue" && choice.kind !== "none") return unqueued(QUEUE_UNKNOWN, textOf(choice));
  const needs = needsOf(record, podPolicy.poolLabel, podDefaults?.(record.elsewhere?.namespace));
  const request = { ...options, ...inTopology(record), priority: record.spec.priority, queue: queueOf(choice) };
  try {
    return toWaitReason(await sessions.check(record.name, needs, request));
  } catch (error) {
    const fault = findFault(error);
    const code = fault && unqueuedCode(fault);
    if (fault === undefined || code === undefined) throw error;
    return unqueued(code, describeFault(fault));
  }
}

/** Returns the ledger's current reason why a session waits, or would wait; undefined if it would not wait, or if the ledger is unavailable. */
export async function explainWaiting(deps: ExplainDeps, record: SessionRecord): Promise<WaitReason | undefined> {
  try {
    if (record.reservationId === "") return await checkMachines(deps, record);
    const reservation = await deps.ledger.sessions.ask(record.name, { timeoutMs: EXPLAIN_TIMEOUT_MS });
    if (reservation?.state !== "waiting" || reservation.id !== record.reservationId) return undefined;
    return toWaitReason(reservation.because);
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
}

/** Requests the state of the session's machines and of replacement machines from the ledger and the node-scaler. */
export function askMachinesOf(calls: ExplainCalls, { name }: SessionRecord): Promise<MachineAnswers> {
  const owner = { kind: SESSION_KIND, id: name };
  return askMachines(calls, owner, { kind: REPLACEMENT_KIND, includes: (part) => canOccupy(owner, part) });
}

async function releaseOwn({ sessions }: SessionLedger, record: SessionRecord): Promise<void> {
  const found = record.reservationId === "" ? await sessions.ask(record.name) : undefined;
  const id = decideSessionRelease(record, found);
  if (id !== undefined) await sessions.release(record.name, id);
}

/** Releases every replacement machine that components have or wait for. */
async function releaseReplacements(ledger: SessionLedger, record: SessionRecord): Promise<void> {
  for (const { name, lostAtMs } of record.components)
    if (lostAtMs > 0) await releaseReplacement(ledger, record, { component: name, reservationId: "" });
}

async function releaseReplacement(
  { replacements }: SessionLedger,
  record: SessionRecord,
  { component, reservationId }: { readonly component: string; readonly reservationId: string },
): Promise<void> {
  const ownerId = buildReplacementId(record, component);
  const id = reservationId === "" ? (await replacements.ask(ownerId))?.id : reservationId;
  if (id !== undefined) await replacements.release(ownerId, id);
}

/** Reserves the machines of the session, or adopts its existing reservation, even if its queue no longer exists. */
async function reserve(
  { ledger, maxExecutors, podPolicy, podDefaults, chooseQueue }: ActDeps,
  record: SessionRecord,
): Promise<ReservationSeen> {
  const { priority, queue } = record.spec;
  const choice = await chooseQueue(queue, inNamespace(record));
  if (choice.kind !== "queue" && choice.kind !== "none") {
    // The process may have died between the request and the write, so the record may lack an existing reservation.
    const found = await ledger.sessions.ask(record.name);
    if (found !== undefined && decideSessionRelease(record, found) === found.id) return toReservationSeen(found);
    return { state: "unqueued", text: textOf(choice) };
  }
  const options = {
    priority,
    concurrencyLimit: maxExecutors,
    ...inTopology(record),
    ...inQueue(queueOf(choice)),
  };
  const needs = neededOf(record, podPolicy.poolLabel, podDefaults?.(record.elsewhere?.namespace));
  return withLowered(await reserveOrAdopt(ledger.sessions, record.name, needs, options), priority, choice);
}

/** Adds the queue's priority limit if it lowers the priority. */
function withLowered(seen: ReservationSeen, priority: number, choice: QueueChoice): ReservationSeen {
  if (choice.kind !== "queue" || choice.maxPriority === undefined || priority <= choice.maxPriority) return seen;
  const { name: queue, maxPriority } = choice;
  return seen.state === "waiting" || seen.state === "granted" ? { ...seen, lowered: { queue, maxPriority } } : seen;
}

function queueOf(choice: QueueChoice): string | undefined {
  return choice.kind === "queue" ? choice.name : undefined;
}

/** Returns the wait code if the queue is the reason for the refusal; otherwise undefined. */
function unqueuedCode({ code }: Fault): "QUEUE_UNKNOWN" | "QUOTA_EXCEEDED" | undefined {
  if (code === "queue_unknown") return "QUEUE_UNKNOWN";
  return code === "quota_exceeded" ? "QUOTA_EXCEEDED" : undefined;
}

/** Returns the queue options of a reservation. Sessions do not end when they are preempted. */
function inQueue(queue: string | undefined): Parameters<LedgerCalls["reserve"]>[2] {
  return queue === undefined ? {} : { queue, notPreemptible: true };
}

function inTopology({ spec: { topology } }: SessionRecord): { readonly topology?: string } {
  return topology === "" ? {} : { topology };
}

function inNamespace({ elsewhere }: SessionRecord): { readonly namespace?: string } {
  return elsewhere === undefined ? {} : { namespace: elsewhere.namespace };
}

function needsOf({ spec }: SessionRecord, poolLabel: string, defaults?: PodDefaults): ComponentNeed[] {
  return spec.components.map((component) => buildComponentNeed(component, poolLabel, defaults));
}

/** Reserves one machine beside the session's grant, in the same queue and domain, and in the pool of the component's grant. */
async function reserveReplacement(
  { ledger, podPolicy, podDefaults }: ActDeps,
  record: SessionRecord,
  { component, pool, rejectedBy = [] }: Extract<ActStep, { kind: "reserve-replacement" }>,
): Promise<ReservationSeen> {
  const { priority } = record.spec;
  const own = await ledger.sessions.ask(record.name);
  const { needs, own: ownNeeds } = neededOf(
    record,
    podPolicy.poolLabel,
    podDefaults?.(record.elsewhere?.namespace),
    component,
  );
  const beside = ({ otherPools: _, ...need }: ComponentNeed): ComponentNeed =>
    inDomain(avoidNodes({ ...need, pool }, rejectedBy), own);
  const needed = { needs: needs.map(beside), own: ownNeeds.map(beside) };
  return reserveOrAdopt(ledger.replacements, buildReplacementId(record, component), needed, {
    priority,
    ...inQueue(own?.queue),
  });
}

/**
 * Reserves the needs, or adopts the existing reservation. Earlier versions requested whole machines of one pool, without node selections or minima, and an
 * earlier ledger stores only these. Such a reservation is adopted unchanged.
 */
async function reserveOrAdopt(
  ledger: LedgerCalls,
  ownerId: string,
  { needs, own }: Needed,
  options: Parameters<LedgerCalls["reserve"]>[2],
): Promise<ReservationSeen> {
  try {
    return toReservationSeen(await ledger.reserve(ownerId, needs, options));
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code === "reservation_differs") {
      const found = await ledger.ask(ownerId);
      if (found !== undefined && found.topology === options?.topology && isAdoptable(found.needs, own))
        return toReservationSeen(found);
    }
    if (fault !== undefined && unqueuedCode(fault) !== undefined)
      return { state: "unqueued", text: describeFault(fault) };
    if (fault !== undefined && isRefusal(fault))
      return { state: "refused", fault, text: describeRefusal(fault, needs) };
    throw error;
  }
}

/** The needs of components, with and without the requests that admission adds, which may have changed since the reservation. */
type Needed = { readonly needs: readonly ComponentNeed[]; readonly own: readonly ComponentNeed[] };

/** Computes the needs of all components, or of the component `only`. */
function neededOf(record: SessionRecord, poolLabel: string, defaults?: PodDefaults, only?: string): Needed {
  const isMeant = ({ component }: ComponentNeed): boolean => only === undefined || component === only;
  return {
    needs: needsOf(record, poolLabel, defaults).filter(isMeant),
    own: needsOf(record, poolLabel).filter(isMeant),
  };
}

/**
 * Returns whether the found needs match ours: without further pools, parts of machines, node selections or minima, or with amounts that cover the requests of
 * the templates.
 */
function isAdoptable(found: Reservation["needs"], own: readonly ComponentNeed[]): boolean {
  const requested = new Map(own.map((need) => [need.component, need]));
  const keyOf = (selection: ComponentNeed["selection"]): string =>
    buildNodeSelectionKey(withoutMinimum(selection) ?? { terms: [], tolerations: [] });
  const isSame = ({ component, pool, otherPools, shared, selection }: Reservation["needs"][number]): boolean => {
    const need = requested.get(component);
    if (need?.pool !== pool || !isHeldBy(need.shared, shared)) return false;
    if (otherPools !== undefined && otherPools.join() !== need.otherPools?.join()) return false;
    if (selection === undefined) return shared === undefined || need.selection === undefined;
    return keyOf(selection) === keyOf(need.selection) && isHeldBy(need.selection?.minimum, selection.minimum);
  };
  return found.length === own.length && found.every(isSame);
}

/** Returns whether the reserved amounts, if any, cover the requests of a template. */
function isHeldBy(requests: Requests | undefined, found: Requests | undefined): boolean {
  if (found === undefined) return true;
  return requests !== undefined && Object.entries(requests).every(([name, amount]) => amount <= (found[name] ?? 0));
}
