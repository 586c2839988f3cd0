import { evolve, type Ledger, type LedgerEvent } from "./ledger.ts";
import { withEvent, type Machines } from "./machines.ts";

/** All that a decision reads. */
export type World = { readonly ledger: Ledger; readonly machines: Machines };

export function evolveWorld(world: World, events: readonly LedgerEvent[]): World {
  let { ledger, machines } = world;
  for (const event of events) {
    machines = withEvent(machines, ledger, event);
    ledger = evolve(ledger, event);
  }
  return { ledger, machines };
}
