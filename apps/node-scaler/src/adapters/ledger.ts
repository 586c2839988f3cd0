import type { Client } from "@muster/bus";
import type { ReservationService } from "@muster/proto";
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

/** More pages than that are no list of machines but a loop. */
const PAGES_MAX = 1000;

/** What waits for machines of the scaled pools; as many reservations as the ledger tells in one answer, the first in its order. */
export async function askDemands(
  { ledger, policies, timeoutMs }: LedgerOptions,
  signal: AbortSignal,
): Promise<Demand[]> {
  if (policies.size === 0) return [];
  const { reservations } = await ledger.listDemand({ pools: [...policies.keys()] }, { timeoutMs, signal });
  return buildDemands(reservations.map(toWaiting), policies);
}

/** Every machine of every pool: a pool that is no longer scaled may have nodes of the scaler. */
export async function askMachines({ ledger, timeoutMs }: LedgerOptions, signal: AbortSignal): Promise<Machines> {
  const machines: Machine[] = [];
  let [after, isComplete] = ["", true];
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const reply = await ledger.listMachines({ continue: after }, { timeoutMs, signal });
    machines.push(...reply.machines.map(toMachine));
    isComplete &&= reply.complete;
    after = reply.continue;
    if (after === "") break;
  }
  return { byNode: new Map(machines.map((machine) => [machine.node, machine])), complete: isComplete && after === "" };
}
