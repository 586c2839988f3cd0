import type { Client } from "@muster/bus";
import type { muster, ReservationService } from "@muster/proto";
import { buildDemands } from "../domain/build-demands.ts";
import type { Demand } from "../domain/demand.ts";
import type { PoolPolicy } from "../domain/pool.ts";
import type { Machine, Machines } from "../domain/sightings.ts";
import { toMachine, toWaiting } from "./messages.ts";

type LedgerClient = Pick<Client<typeof ReservationService>, "listDemand" | "listMachines">;

export type LedgerOptions = {
  readonly ledger: LedgerClient;
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly timeoutMs: number;
};

/** More pages than this mean a loop, not a list of machines. */
const MAX_PAGES = 1000;

/**
 * Reads the demands for machines of the scaled pools. If one answer of the ledger is not enough, each pool is read separately, so that a long queue for one
 * pool hides no other.
 */
export async function askDemands(
  { ledger, policies, timeoutMs }: LedgerOptions,
  signal: AbortSignal,
): Promise<Demand[]> {
  if (policies.size === 0) return [];
  const ask = (pools: string[]) => ledger.listDemand({ pools }, { timeoutMs, signal });
  // One complete answer serves all pools: a kind's concurrency limit leaves room once, not once per pool.
  const all = await ask([...policies.keys()]);
  const replies =
    all.more === 0 ? [all] : [all, ...(await Promise.all([...policies.keys()].map((pool) => ask([pool]))))];
  const waiting = new Map(replies.flatMap(({ reservations }) => reservations.map((one) => [one.id, one] as const)));
  const within = replies.length === 1 ? [...waiting.values()] : withinRooms([...waiting.values()], all.rooms);
  return buildDemands(within.map(toWaiting), policies);
}

/** Limits the reservations of all lists together to the room that their kinds' limits leave, the first in the queue first. */
function withinRooms(
  reservations: readonly muster.reservation.v1.Reservation[],
  rooms: readonly muster.reservation.v1.KindRoom[],
): readonly muster.reservation.v1.Reservation[] {
  const left = new Map(rooms.map(({ ownerKind, room }) => [ownerKind, room]));
  const inOrder = reservations.toSorted(
    (one, other) => other.priority - one.priority || one.createdAtMs - other.createdAtMs,
  );
  return inOrder.filter(({ owner }) => {
    const kind = owner?.kind ?? "";
    const room = left.get(kind) ?? Infinity;
    left.set(kind, room - 1);
    return room > 0;
  });
}

/** Reads every machine of every pool, because an unscaled pool may still have nodes of the scaler. */
export async function askMachines({ ledger, timeoutMs }: LedgerOptions, signal: AbortSignal): Promise<Machines> {
  const machines: Machine[] = [];
  let [after, isComplete] = ["", true];
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const reply = await ledger.listMachines({ continue: after }, { timeoutMs, signal });
    machines.push(...reply.machines.map(toMachine));
    isComplete &&= reply.complete;
    after = reply.continue;
    if (after === "") break;
  }
  return { byNode: new Map(machines.map((machine) => [machine.node, machine])), complete: isComplete && after === "" };
}
