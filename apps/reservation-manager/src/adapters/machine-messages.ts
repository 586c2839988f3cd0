import type { muster } from "@muster/proto";
import { buildHolder } from "../domain/decisions/explanation.ts";
import type { MachineState } from "../domain/decisions/list-machines.ts";
import type { Reservation } from "../domain/ledger/reservation.ts";
import { toWireHolder } from "./explanation-messages.ts";
import { toWireAmounts, toWireNodeUse } from "./messages.ts";

const STANDINGS = {
  free: "FREE",
  held: "HELD",
  shared: "SHARED",
  foreign: "FOREIGN_USE",
  occupied: "OCCUPIED",
  notReady: "NOT_READY",
  cordoned: "CORDONED",
  lost: "LOST",
} as const satisfies Record<MachineState["standing"], string>;

type WireHolder = muster.reservation.v1.Holder.$Properties;

/** Returns a writer for the machines of one page, which encodes each holder once. */
export function makeMachineWriter(): (machine: MachineState) => muster.reservation.v1.MachineState.$Properties {
  const holders = new Map<string, WireHolder>();
  return (machine) => {
    const { node, pool, standing, toleratedStanding, cordoned, holder, allocatable, free, foreign } = machine;
    return {
      node,
      pool,
      standing: STANDINGS[standing],
      toleratedStanding: STANDINGS[toleratedStanding],
      taints: [...machine.taints],
      cordoned,
      zone: machine.zone,
      holder: holder && toPageHolder(holder, pool, holders),
      allocatable: allocatable && toWireAmounts(allocatable),
      free: free && toWireAmounts(free),
      sharedHolders: machine.partHolders.map((each) => toPageHolder(each, pool, holders)),
      foreign: foreign && toWireNodeUse(foreign),
      excess: toWireAmounts(machine.excess),
    };
  };
}

/** Caches the holders of this page in `known`: a gang has one holder, whose machines are counted once. */
function toPageHolder(reservation: Reservation, pool: string, known: Map<string, WireHolder>): WireHolder {
  const key = `${reservation.sequence} ${pool}`;
  const holder = known.get(key) ?? toWireHolder(buildHolder(reservation, pool));
  known.set(key, holder);
  return holder;
}
