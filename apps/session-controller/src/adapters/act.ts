import { deadline } from "@muster/backoff";
import type { Client } from "@muster/bus";
import { faultOf, unlessMissing } from "@muster/faults";
import { askMachines, listReservations, type AskedMachines, type ExplainCalls } from "@muster/ledger-client";
import { mayOccupy } from "@muster/names";
import type { ReservationService } from "@muster/proto";
import { LOGS_MOST_MS } from "../config.ts";
import { decideRelease, type FoundReservation } from "../domain/decide-release.ts";
import type { ActStep } from "../domain/plan-session.ts";
import type { Owned } from "../domain/plan-sweep.ts";
import { REPLACEMENT_KIND, replacementId } from "../domain/replacement-owner.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { ReservationSeen, WaitReason } from "../domain/snapshot.ts";
import type { LogsRead } from "../domain/transition-record.ts";
import type { Acted, CollectStep, QuickStep } from "../session-deps.ts";
import { collectLogs, type LogReading } from "./collect-logs.ts";
import { createPod, type CreatePodDeps } from "./create-pod.ts";
import {
  foundReservationOf,
  isRefusal,
  ownedReplacementOf,
  ownedReservationOf,
  reservationSeenOf,
  waitReasonOf,
} from "./messages.ts";
import type { Pods } from "./pods.ts";
import { inStep } from "./trace.ts";

export type ActDeps = CreatePodDeps & {
  readonly reservations: Client<typeof ReservationService>;
  readonly pods: Pods;
  readonly reading: Omit<LogReading, "deadline">;
  readonly executorsMax: number;
};

/** Executes one step of a session at the ledger or the API server. Steps may be repeated: names, owners and uids make repetitions harmless. */
export function act(deps: ActDeps, record: SessionRecord, step: QuickStep): Promise<Acted> {
  return inStep(record, step, async (): Promise<Acted> => {
    switch (step.kind) {
      case "reserve":
        return { kind: "reservation", reservation: await reserve(deps, record) };
      case "create-pod":
        return createPod(deps, record, step);
      case "delete-pod":
        await deps.pods.delete(step.pod, step.uid, {
          force: step.force,
          ...("resourceVersion" in step ? { resourceVersion: step.resourceVersion } : {}),
        });
        return { kind: "nothing" };
      case "release":
        await releaseReplacements(deps.reservations, record);
        await releaseOwn(deps.reservations, record);
        return { kind: "outcome", outcome: { kind: "released" } };
      case "reserve-replacement": {
        const reservation = await reserveReplacement(deps, record, step);
        return { kind: "replacement", component: step.component, reservation };
      }
      case "release-replacement":
        await releaseReplacementOf(deps.reservations, record, step);
        return { kind: "replacement", component: step.component, reservation: { state: "released" } };
    }
  });
}

/** The `collectLogs` of the sessions. */
export function collect(
  deps: ActDeps,
  record: SessionRecord,
  step: CollectStep,
  onRead: (read: LogsRead) => void,
  signal: AbortSignal,
): Promise<void> {
  return inStep(record, step, async () => {
    using over = deadline(LOGS_MOST_MS, [signal]);
    await collectLogs({ ...deps.reading, deadline: over.signal }, record, step.pods, onRead);
  });
}

/** Lists what sessions may leave behind: pods, then reservations, then replacement machines. */
export async function listOwned({ pods, reservations }: Pick<ActDeps, "pods" | "reservations">): Promise<Owned[]> {
  const owned: Owned[] = await pods.ofAllSessions();
  for await (const page of listReservations(reservations, "session"))
    owned.push(...page.reservations.map(ownedReservationOf));
  for await (const page of listReservations(reservations, REPLACEMENT_KIND))
    owned.push(...page.reservations.map(ownedReplacementOf));
  return owned;
}

/** Timeout for callers who only want to see a session. */
const EXPLAIN_TIMEOUT_MS = 1000;

/** The present reason why the ledger lets a session wait, or would; undefined if it does not, or is unavailable. */
export async function explainWaiting(
  reservations: ActDeps["reservations"],
  record: SessionRecord,
): Promise<WaitReason | undefined> {
  const owner = { kind: "session", id: record.name };
  try {
    if (record.reservationId === "") {
      const { because } = await reservations.checkReservation(
        { owner, needs: needsOf(record) },
        { timeoutMs: EXPLAIN_TIMEOUT_MS },
      );
      return waitReasonOf(because);
    }
    const { reservation } = await reservations.getReservation({ owner }, { timeoutMs: EXPLAIN_TIMEOUT_MS });
    const seen = reservationSeenOf(reservation);
    return seen.state === "waiting" && seen.id === record.reservationId ? seen.because : undefined;
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
    return undefined;
  }
}

/** What the ledger and the node-scaler answer about the machines of the session, and of components that wait for other ones. */
export function askMachinesOf(calls: ExplainCalls, { name }: SessionRecord): Promise<AskedMachines> {
  const owner = { kind: "session", id: name };
  return askMachines(calls, owner, { kind: REPLACEMENT_KIND, includes: (part) => mayOccupy(owner, part) });
}

/** Releases the machines of one reservation, or its place in the queue; a missing reservation is no error. */
export async function release(
  reservations: ActDeps["reservations"],
  session: string,
  reservationId: string,
  requestId: string,
): Promise<void> {
  await reservations.unreserve({ requestId, owner: { kind: "session", id: session }, reservationId });
}

async function releaseOwn(reservations: ActDeps["reservations"], record: SessionRecord): Promise<void> {
  const found = record.reservationId === "" ? await findReservation(reservations, record.name) : undefined;
  const id = decideRelease(record, found);
  if (id !== undefined) await release(reservations, record.name, id, `${record.uid}-release`);
}

/** Every machine that components have, or wait for, in place of lost ones. */
async function releaseReplacements(reservations: ActDeps["reservations"], record: SessionRecord): Promise<void> {
  for (const { name, lostAtMs } of record.components)
    if (lostAtMs > 0) await releaseReplacementOf(reservations, record, { component: name, reservationId: "" });
}

async function releaseReplacementOf(
  reservations: ActDeps["reservations"],
  record: SessionRecord,
  { component, reservationId }: { readonly component: string; readonly reservationId: string },
): Promise<void> {
  const find = () => unlessMissing(reservations.getReservation({ owner: replacementOwner(record, component) }));
  const id = reservationId === "" ? (await find())?.reservation?.id : reservationId;
  if (typeof id === "string" && id !== "") await releaseReplacement(reservations, replacementId(record, component), id);
}

/** Releases one replacement machine, granted or queued; a released one is no error. */
export async function releaseReplacement(
  reservations: ActDeps["reservations"],
  ownerId: string,
  reservationId: string,
): Promise<void> {
  const owner = { kind: REPLACEMENT_KIND, id: ownerId };
  await reservations.unreserve({ requestId: `${ownerId}-${reservationId}`, owner, reservationId });
}

function replacementOwner(record: SessionRecord, component: string): { kind: string; id: string } {
  return { kind: REPLACEMENT_KIND, id: replacementId(record, component) };
}

async function findReservation(
  reservations: ActDeps["reservations"],
  session: string,
): Promise<FoundReservation | undefined> {
  const found = await unlessMissing(reservations.getReservation({ owner: { kind: "session", id: session } }));
  const reservation = found?.reservation;
  return reservation && foundReservationOf(reservation);
}

function reserve(deps: ActDeps, record: SessionRecord): Promise<ReservationSeen> {
  return reserveOrRefused(deps.reservations, {
    requestId: record.uid,
    owner: { kind: "session", id: record.name },
    needs: needsOf(record),
    wait: true,
    priority: record.spec.priority,
    concurrencyLimit: deps.executorsMax,
  });
}

function needsOf({ spec }: SessionRecord): { component: string; pool: string }[] {
  return spec.components.map(({ name, pool }) => ({ component: name, pool }));
}

/** One machine in addition to the session's grant. */
function reserveReplacement(
  deps: ActDeps,
  record: SessionRecord,
  { component, pool }: Extract<ActStep, { kind: "reserve-replacement" }>,
): Promise<ReservationSeen> {
  const owner = replacementOwner(record, component);
  return reserveOrRefused(deps.reservations, {
    requestId: `${owner.id}-reserve`,
    owner,
    needs: [{ component, pool }],
    wait: true,
    priority: record.spec.priority,
  });
}

async function reserveOrRefused(
  reservations: ActDeps["reservations"],
  request: Parameters<ActDeps["reservations"]["reserve"]>[0],
): Promise<ReservationSeen> {
  try {
    const { reservation } = await reservations.reserve(request);
    return reservationSeenOf(reservation);
  } catch (error) {
    const fault = faultOf(error);
    if (fault !== undefined && isRefusal(fault)) return { state: "refused", fault };
    throw error;
  }
}
