import { evolveLedger, evolveImmediateGrant, type Ledger, type LedgerEvent } from "./ledger.ts";
import { withEvent, type Machines } from "./machines.ts";

/** The input of a decision. */
export type World = {
  readonly ledger: Ledger;
  readonly machines: Machines;
  /** All machines, set if `machines` omits kept machines: they decide which requests can ever be granted. Absent: `machines`. */
  readonly attainable?: Machines;
};

/** Ledgers before and after events that were applied. */
const applied = new WeakMap<LedgerEvent, { readonly before: Ledger; readonly after: Ledger }>();

/** As `evolveLedger`, cached by event: the decision applies its event, and the log applies it again at no cost. */
export function evolveOnce(ledger: Ledger, event: LedgerEvent): Ledger {
  const known = applied.get(event);
  if (known?.before === ledger) return known.after;
  const after = evolveLedger(ledger, event);
  applied.set(event, { before: ledger, after });
  return after;
}

export function evolveWorld(world: World, events: readonly LedgerEvent[]): World {
  let { ledger, machines } = world;
  const { attainable } = world;
  for (const [index, event] of events.entries()) {
    prepareImmediateGrant(ledger, event, events[index + 1]);
    machines = withEvent(machines, ledger, event);
    ledger = evolveOnce(ledger, event);
  }
  return { ledger, machines, ...(attainable && { attainable }) };
}

/** Applies both events in one step and caches the results, before callers ask for them one by one. */
function prepareImmediateGrant(ledger: Ledger, event: LedgerEvent, next: LedgerEvent | undefined): void {
  if (event.kind !== "requested" || next?.kind !== "granted" || next.sequence !== event.reservation.sequence) return;
  if (applied.get(event)?.before === ledger) return;
  const { between, after } = evolveImmediateGrant(ledger, event, next);
  applied.set(event, { before: ledger, after: between });
  applied.set(next, { before: between, after });
}
