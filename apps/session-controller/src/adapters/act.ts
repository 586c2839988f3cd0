import type { Client } from "@muster/bus";
import { faultOf, unlessMissing } from "@muster/faults";
import type { ReservationService } from "@muster/proto";
import { explainReason } from "../domain/explain-wait.ts";
import { decideRelease, type FoundReservation } from "../domain/decide-release.ts";
import type { ActStep } from "../domain/plan-session.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { ReservationSeen } from "../domain/snapshot.ts";
import type { Acted } from "../executor.ts";
import { collectLogs } from "./collect-logs.ts";
import { createPod, type CreatePodDeps } from "./create-pod.ts";
import type { LogStore } from "./log-store.ts";
import { foundReservationOf, isRefusal, reservationSeenOf } from "./messages.ts";
import type { PodLogs } from "./pod-logs.ts";
import type { Pods } from "./pods.ts";
import { inStep } from "./trace.ts";

export type ActDeps = CreatePodDeps & {
  readonly now: () => number;
  readonly reservations: Client<typeof ReservationService>;
  readonly pods: Pods;
  readonly podLogs: PodLogs;
  readonly logStore: LogStore;
  readonly executorsMost: number;
  readonly logBytesMost: number;
  readonly logPatienceMs: number;
  readonly resultPatienceMs: number;
};

/** Does one step of a session at the ledger or the API server. Each may be repeated: names, owners and uids make the second time harmless. */
export function act(deps: ActDeps, record: SessionRecord, step: ActStep): Promise<Acted> {
  return inStep(record, step, async (): Promise<Acted> => {
    switch (step.do) {
      case "reserve":
        return { got: "reservation", reservation: await reserve(deps, record) };
      case "create-pod":
        return createPod(deps, record, step);
      case "collect-logs": {
        const kept = await collectLogs(
          {
            logs: deps.podLogs,
            store: deps.logStore,
            limitBytes: deps.logBytesMost,
            patienceMs: deps.logPatienceMs,
            resultPatienceMs: deps.resultPatienceMs,
          },
          record,
          step.pods,
        );
        return { got: "outcome", outcome: { do: "logs-collected", ...kept } };
      }
      case "delete-pod":
        await deps.pods.delete(step.pod, step.uid, step.force);
        return { got: "nothing" };
      case "release":
        await releaseOwn(deps.reservations, record);
        return { got: "outcome", outcome: { do: "released" } };
    }
  });
}

/** Not worth more to whoever only wants to see a session. */
const EXPLAIN_TIMEOUT_MS = 1000;

/** Why the ledger lets a session wait, as of now; undefined when it does not, or is away. */
export async function explainWaiting(
  reservations: ActDeps["reservations"],
  record: SessionRecord,
): Promise<string | undefined> {
  try {
    const owner = { kind: "session", id: record.name };
    const { reservation } = await reservations.getReservation({ owner }, { timeoutMs: EXPLAIN_TIMEOUT_MS });
    const seen = reservationSeenOf(reservation);
    return seen.state === "waiting" && seen.id === record.reservationId ? explainReason(seen.because) : undefined;
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

async function findReservation(
  reservations: ActDeps["reservations"],
  session: string,
): Promise<FoundReservation | undefined> {
  const found = await unlessMissing(reservations.getReservation({ owner: { kind: "session", id: session } }));
  const reservation = found?.reservation;
  return reservation === null || reservation === undefined ? undefined : foundReservationOf(reservation);
}

async function reserve(deps: ActDeps, record: SessionRecord): Promise<ReservationSeen> {
  try {
    const { reservation } = await deps.reservations.reserve({
      requestId: record.uid,
      owner: { kind: "session", id: record.name },
      needs: record.spec.components.map(({ name, pool }) => ({ component: name, pool })),
      wait: true,
      priority: record.spec.priority,
      concurrencyLimit: deps.executorsMost,
    });
    return reservationSeenOf(reservation);
  } catch (error) {
    const fault = faultOf(error);
    if (fault !== undefined && isRefusal(fault)) return { state: "refused", fault };
    throw error;
  }
}
