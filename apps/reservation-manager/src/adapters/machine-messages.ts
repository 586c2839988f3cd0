import type { muster } from "@muster/proto";
import type { MachinePage, MachineState } from "../domain/decisions/list-machines.ts";
import { idOf, type Reservation } from "../domain/ledger/reservation.ts";

const STANDINGS = {
  free: "FREE",
  held: "HELD",
  occupied: "OCCUPIED",
  notReady: "NOT_READY",
  cordoned: "CORDONED",
  lost: "LOST",
} as const satisfies Record<MachineState["standing"], string>;

type WireHolder = muster.reservation.v1.Holder.$Properties;

export function toWireMachines({
  machines,
  next,
  complete,
}: MachinePage): muster.reservation.v1.ListMachinesReply.$Properties {
  const holders = new Map<string, WireHolder>();
  return {
    machines: machines.map(({ node, pool, standing, cordoned, holder }) => ({
      node,
      pool,
      standing: STANDINGS[standing],
      cordoned,
      holder: holder && toWireHolder(holder, pool, holders),
    })),
    continue: next,
    complete,
  };
}

/** `known` caches the holders of this page: a gang has one holder, whose machines are counted once. */
function toWireHolder(reservation: Reservation, pool: string, known: Map<string, WireHolder>): WireHolder {
  const { owner, sequence, grant } = reservation;
  const key = `${sequence} ${pool}`;
  const same = known.get(key);
  if (same !== undefined) return same;
  const machines = grant?.machines.filter((machine) => machine.pool === pool).length ?? 0;
  const holder = { owner, reservationId: idOf(sequence), machines, sinceMs: grant?.atMs ?? 0 };
  known.set(key, holder);
  return holder;
}
