import { deadline, type Turns } from "@muster/backoff";
import type { Client } from "@muster/bus";
import { faultOf, unlessMissing } from "@muster/faults";
import type { ReservationService } from "@muster/proto";
import { LOGS_MOST_MS } from "../config.ts";
import { decideRelease, type FoundReservation } from "../domain/decide-release.ts";
import type { ActStep } from "../domain/plan-session.ts";
import { REPLACEMENT_KIND, replacementId } from "../domain/replacement-owner.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { ReservationSeen, WaitReason } from "../domain/snapshot.ts";
import type { LogsRead } from "../domain/transition-record.ts";
import type { Acted, CollectStep, QuickStep } from "../executor.ts";
import { collectLogs } from "./collect-logs.ts";
import { createPod, type CreatePodDeps } from "./create-pod.ts";
import type { LogStore } from "./log-store.ts";
import { foundReservationOf, isRefusal, reservationSeenOf, waitReasonOf } from "./messages.ts";
import type { PodLogs } from "./pod-logs.ts";
import type { Pods } from "./pods.ts";
import { inStep } from "./trace.ts";

export type ActDeps = CreatePodDeps & {
  readonly now: () => number;
  readonly reservations: Client<typeof ReservationService>;
  readonly pods: Pods;
  readonly podLogs: PodLogs;
  readonly logStore: LogStore;
  readonly executorsMax: number;
  readonly logBytesMax: number;
  readonly logPatienceMs: number;
  readonly resultPatienceMs: number;
  /** All reading of logs by this process. */
  readonly logTurns: Turns;
};

/** Does one step of a session at the ledger or the API server. Each may be repeated: names, owners and uids make the second time harmless. */
export function act(deps: ActDeps, record: SessionRecord, step: QuickStep): Promise<Acted> {
  return inStep(record, step, async (): Promise<Acted> => {
    switch (step.do) {
      case "reserve":
        return { got: "reservation", reservation: await reserve(deps, record) };
      case "create-pod":
        return createPod(deps, record, step);
      case "delete-pod":
        await deps.pods.delete(step.pod, step.uid, {
          force: step.force,
          ...("resourceVersion" in step ? { resourceVersion: step.resourceVersion } : {}),
        });
        return { got: "nothing" };
      case "release":
        await releaseReplacements(deps.reservations, record);
        await releaseOwn(deps.reservations, record);
        return { got: "outcome", outcome: { do: "released" } };
      case "reserve-replacement": {
        const reservation = await reserveReplacement(deps, record, step);
        return { got: "replacement", component: step.component, reservation };
      }
      case "release-replacement":
        await releaseReplacementOf(deps.reservations, record, step);
        return { got: "replacement", component: step.component, reservation: { state: "released" } };
    }
  });
}

/** The `collectLogs` of an executor. */
export function collect(
  deps: ActDeps,
  record: SessionRecord,
  step: CollectStep,
  onRead: (read: LogsRead) => void,
  signal: AbortSignal,
): Promise<void> {
  const reading = {
    logs: deps.podLogs,
    store: deps.logStore,
    limitBytes: deps.logBytesMax,
    patienceMs: deps.logPatienceMs,
    resultPatienceMs: deps.resultPatienceMs,
    turns: deps.logTurns,
  };
  return inStep(record, step, async () => {
    using over = deadline(LOGS_MOST_MS, [signal]);
    await collectLogs({ ...reading, deadline: over.signal }, record, step.pods, onRead);
  });
}

/** Not worth more to whoever only wants to see a session. */
const EXPLAIN_TIMEOUT_MS = 1000;

/** Why the ledger lets a session wait, or would as soon as it is asked, as of now; undefined when it does not, or is away. */
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

/** Gives back the machines of one reservation, or its place in the queue; when it is gone already, that is no error. */
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

/** Every machine that components got in place of lost ones, or wait for. */
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

/** Releases one machine that was granted, or is waited for, in place of a lost one; when it is released already, that is no error. */
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
  return reservation === null || reservation === undefined ? undefined : foundReservationOf(reservation);
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

/** One machine beside the session's grant, which stays as it is. */
function reserveReplacement(
  deps: ActDeps,
  record: SessionRecord,
  { component, pool }: Extract<ActStep, { do: "reserve-replacement" }>,
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
