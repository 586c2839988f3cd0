import { makeClient, type Bus, type Client } from "@muster/bus";
import { describeFault, findFault, unlessMissing } from "@muster/faults";
import { JobService, NodeService, ReservationService, type muster } from "@muster/proto";
import {
  isWaitingForNodes,
  withGoneHolders,
  type LeftoverPod,
  type StateReason,
  type SeenMachines,
} from "./explanation.ts";
import { listReservations, type ReservationCalls } from "./ledger-calls.ts";

type ReservationExplained = muster.reservation.v1.ExplainReservationReply;
type Owner = { readonly kind: string; readonly id: string };

/** The calls to other services for an explanation. */
export type ExplainCalls = {
  readonly reservations: Pick<ReservationCalls, "explainReservation" | "listReservations">;
  readonly nodes: Pick<Client<typeof NodeService>, "explainDemand">;
  /** Pods that keep machines of deleted jobs. Called only if a job holds machines that the owner waits for. */
  readonly podsLeft: () => Promise<readonly LeftoverPod[]>;
};

/** The calls of the services on this bus. */
export function makeExplainCalls(bus: Bus): ExplainCalls {
  const jobs = makeClient(bus, JobService);
  return {
    reservations: makeClient(bus, ReservationService),
    nodes: makeClient(bus, NodeService),
    podsLeft: async () => {
      const { podsLeft } = await jobs.listJobs({ limit: 1 }, OPTIONS);
      return podsLeft.map(({ ownerId, job, pod, node }) => ({ owner: `job/${ownerId}`, name: job, pod, node }));
    },
  };
}

/** The answers of the other services about the machines of an owner. */
export type MachineAnswers = {
  /** Undefined: the owner has no reservation, or the ledger did not answer. */
  readonly seen: SeenMachines | undefined;
  readonly reservation: ReservationExplained | undefined;
  /** Why the ledger did not answer; undefined: it answered. */
  readonly ledgerTrouble: string | undefined;
  /** Undefined: further nodes would not help. */
  readonly scaling: muster.explain.v1.Scaling.$Properties | undefined;
  readonly podsLeft: readonly LeftoverPod[];
};

/** The answer if no service has to be called. */
export const NO_ANSWERS: MachineAnswers = {
  seen: undefined,
  reservation: undefined,
  ledgerTrouble: undefined,
  scaling: undefined,
  podsLeft: [],
};

/** A short time limit, because the answers of other services only complete an explanation. */
const OPTIONS = { timeoutMs: 1000 };

/**
 * Calls the ledger and the node-scaler about the owner. `parts` are the owners that may wait for machines on its behalf once its own reservation is granted.
 * Never rejects with FaultError: an unavailable service is a part of the answer.
 */
export async function askMachines(
  calls: ExplainCalls,
  owner: Owner,
  parts?: { readonly kind: string; readonly includes: (part: Owner) => boolean },
): Promise<MachineAnswers> {
  let reservation: ReservationExplained | undefined;
  try {
    reservation = await explainOwner(calls, owner);
    if (parts !== undefined && reservation?.code === "")
      reservation = (await explainWaitingPart(calls, parts)) ?? reservation;
  } catch (error) {
    return { ...NO_ANSWERS, ledgerTrouble: describeTrouble(error) };
  }
  if (reservation === undefined) return NO_ANSWERS;
  const seen = readMachines(reservation);
  const [scaling, podsLeft] = await Promise.all([askScaling(calls, reservation, seen), askPodsLeft(calls, seen)]);
  return { seen, reservation, ledgerTrouble: undefined, scaling, podsLeft };
}

/** The phase of an object, and its start. */
type Explained = {
  readonly kind: string;
  readonly name: string;
  readonly phase: string;
  readonly sinceMs: number;
  readonly isOver: boolean;
};

/** The answer to a user: the reason that decides, and the additions of the other services. */
export function toWireExplanation(
  explained: Explained,
  reason: StateReason,
  asked: MachineAnswers,
): muster.explain.v1.Explanation.$Properties {
  const { reservation, scaling } = asked;
  return {
    ...explained,
    reasons: [...reasonsWith(reason, asked)],
    ...(reservation && { reservation }),
    ...(scaling && { scaling }),
  };
}

function reasonsWith(reason: StateReason, asked: MachineAnswers): readonly StateReason[] {
  const { seen, podsLeft, ledgerTrouble } = asked;
  const first = withGoneHolders(reason, seen, podsLeft);
  if (ledgerTrouble === undefined) return [first];
  const message = `the ledger does not answer about its machines: ${ledgerTrouble}`;
  return [first, { code: "LEDGER_AWAY", message, next: "`muster doctor` checks the reservation-manager" }];
}

function explainOwner({ reservations }: ExplainCalls, owner: Owner): Promise<ReservationExplained | undefined> {
  return unlessMissing(reservations.explainReservation({ owner }, OPTIONS));
}

async function explainWaitingPart(
  calls: ExplainCalls,
  { kind, includes }: { readonly kind: string; readonly includes: (part: Owner) => boolean },
): Promise<ReservationExplained | undefined> {
  for await (const { reservations } of listReservations(calls.reservations, kind, OPTIONS)) {
    const waiting = reservations.find(({ state, ownerId: id }) => state === "waiting" && includes({ kind, id }));
    if (waiting !== undefined) return await explainOwner(calls, { kind, id: waiting.ownerId });
  }
  return undefined;
}

function readMachines({ reservation, code, message, pools }: ReservationExplained): SeenMachines {
  return {
    code,
    message,
    components: (reservation?.needs ?? []).map(({ component }) => component),
    pools: pools.map(({ pool, unusable, unusableNodes, elasticMax, holders }) => ({
      pool,
      unusable,
      unusableNodes: unusableNodes.map(({ reason }) => ({ reason })),
      elasticMax,
      holders: holders.map(({ owner }) => `${owner?.kind ?? ""}/${owner?.id ?? ""}`),
    })),
  };
}

async function askScaling(
  { nodes }: ExplainCalls,
  { reservation }: ReservationExplained,
  seen: SeenMachines,
): Promise<MachineAnswers["scaling"]> {
  const owner = reservation?.owner;
  if (!isWaitingForNodes(seen) || owner === undefined) return undefined;
  try {
    return { demand: await nodes.explainDemand({ owner }, OPTIONS) };
  } catch (error) {
    return { trouble: describeTrouble(error) };
  }
}

async function askPodsLeft({ podsLeft }: ExplainCalls, { code, pools }: SeenMachines): Promise<readonly LeftoverPod[]> {
  const isHeldByJob = pools.some(({ holders }) => holders.some((holder) => holder.startsWith("job/")));
  if (code === "" || !isHeldByJob) return [];
  try {
    return await podsLeft();
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return [];
  }
}

function describeTrouble(error: unknown): string {
  const fault = findFault(error);
  if (fault === undefined) throw error;
  return fault.code === "unavailable" ? "no replica of it answers" : describeFault(fault);
}
