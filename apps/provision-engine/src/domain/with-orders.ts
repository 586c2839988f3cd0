import type { Order } from "@muster/leases";
import { unitsOf, type Overheads } from "./count-leases.ts";
import { mayHold, type Phase } from "./lease.ts";
import { addUnits } from "./resource-units.ts";
import type { Neighbour, Surroundings } from "./surroundings.ts";
import type { Claim } from "./workload-type.ts";
import { readClaim } from "./workload-types.ts";

type Known = {
  readonly overheads: Overheads;
  /** Undefined: there is no such lease. */
  readonly phaseOf: (id: string) => Phase | undefined;
};

/** What there would be beside an order, were others of its user sent before, and begun unless they are there already. */
export function withOrders(
  around: Surroundings,
  { order, claim }: { readonly order: Order; readonly claim: Claim },
  before: readonly Order[],
  { overheads, phaseOf }: Known,
): Surroundings {
  const { needs, network: own } = claim;
  let { held } = around;
  const named = new Map(around.named.map((each): [string, Neighbour] => [each.id, each]));
  for (const other of before) {
    const read = other.user === order.user && other.engine === order.engine ? readClaim(other) : undefined;
    if (read?.ok !== true || other.id === order.id || !wouldBegin(phaseOf(other.id))) continue;
    // What it takes over is counted already.
    const takesOver = other.reference !== undefined && phaseOf(other.reference) !== undefined;
    if (!takesOver) held = addUnits(held, unitsOf(other, read.value, overheads));
    const { network } = read.value;
    const isNamed =
      needs.volumes.includes(other.id) ||
      (network !== undefined && (network === own || needs.networks.includes(network)));
    if (!isNamed) continue;
    const { id, type } = other;
    named.set(id, { id, type, phase: "PROVISIONING", network, within: read.value.needs.networks[0] });
  }
  return { ...around, held, named: [...named.values()] };
}

/** What may be there is counted as it is, and what has ended never runs again. */
function wouldBegin(phase: Phase | undefined): boolean {
  return phase === undefined || (!mayHold(phase) && phase !== "ENDED");
}
