import type { Order } from "@muster/leases";
import { networkOf } from "./count-leases.ts";
import { mayHold, type LeaseRecord } from "./lease.ts";
import type { ResourceUnits } from "./resource-units.ts";
import type { Claim } from "./workload-type.ts";
import { readClaim } from "./workload-types.ts";

/** What there is to give; a unit without a number has no limit. */
export type Capacity = { readonly [Unit in keyof ResourceUnits]?: bigint };

/** What else there is. */
export type Holdings = {
  /** What is taken or may be, without the lease that is decided about. */
  readonly held: ResourceUnits;
  readonly capacity: Capacity;
  /** The other leases of the same user. */
  readonly ofUser: readonly Pick<LeaseRecord, "order" | "phase">[];
};

export type Admission =
  | { readonly admit: "yes"; readonly because: string }
  /** For something that is on its way. */
  | { readonly admit: "later"; readonly because: string }
  | { readonly admit: "no"; readonly because: string };

const WHAT = {
  cru: "processors",
  mru: "memory",
  hru: "HDD storage",
  sru: "SSD storage",
} as const satisfies Record<keyof ResourceUnits, string>;

const UNITS = ["mru", "cru", "sru", "hru"] as const;

/** Whether a lease may be provisioned now: what it mounts and joins is there and belongs to its user, and what it takes is free. Exactly what is free is given. */
export function decideAdmission(order: Order, claim: Claim, holdings: Holdings): Admission {
  const need = decideReference(order, holdings) ?? decideNeeds(order, claim, holdings);
  return need.admit === "yes" ? decideCapacity(claim.units, holdings) : need;
}

/**
 * What an earlier lease has is not handed over to another: whoever orders that gets nothing empty in its place, and the earlier lease stays. One that is not there any
 * more has nothing to hand over.
 */
function decideReference({ user, reference }: Order, holdings: Holdings): Admission | undefined {
  if (reference === undefined) return undefined;
  const isThere = holdings.ofUser.some(
    ({ order, phase }) => order.id === reference && order.user === user && (mayHold(phase) || phase === "ORDERED"),
  );
  if (!isThere) return undefined;
  return {
    admit: "no",
    because: `upgrade refused: lease ${reference} is there, and is not taken over; renew or end it`,
  };
}

function decideNeeds({ user }: Order, { needs, network }: Claim, holdings: Holdings): Admission {
  // Most leases need nothing: then nobody has to say what there is.
  if (needs.volumes.length === 0 && needs.networks.length === 0 && network === undefined)
    return { admit: "yes", because: "it needs nothing" };
  const own = holdings.ofUser.filter((each) => each.order.user === user);
  const volumes = needs.volumes.map((id) => {
    const found = own.filter(({ order }) => order.id === id && order.type === "volume");
    return decideReach(id, found, needs.networks) ?? decideNeed(`volume ${id}`, found);
  });
  const networks = needs.networks.map((name) =>
    decideNeed(
      `network ${name}`,
      own.filter(({ order }) => order.type === "network" && networkOf(order) === name),
    ),
  );
  const all = [...volumes, ...networks, ...(network === undefined ? [] : [decideNetwork(network, own)])];
  const hindrance = all.find(({ admit }) => admit === "no") ?? all.find(({ admit }) => admit === "later");
  return hindrance ?? { admit: "yes", because: "what it needs is there" };
}

/** A network is one lease's: whoever has it already renews that. */
function decideNetwork(name: string, own: Holdings["ofUser"]): Admission {
  const others = own.filter((each) => mayHold(each.phase) && networkOf(each.order) === name);
  const [other] = others;
  if (other === undefined) return { admit: "yes", because: `there is no network ${name} yet` };
  const goes = others.every(({ phase }) => phase === "DECOMMISSIONING");
  return goes
    ? { admit: "later", because: `network ${name} of lease ${other.order.id} is being taken down` }
    : { admit: "no", because: `this user has network ${name} by lease ${other.order.id}` };
}

/** A volume is mounted in its own network, or where neither has one. */
function decideReach(id: string, found: Holdings["ofUser"], networks: readonly string[]): Admission | undefined {
  const [network] = networks;
  for (const { order } of found) {
    const claim = readClaim(order);
    const where = claim.ok ? claim.value.needs.networks[0] : undefined;
    if (where === network) continue;
    return { admit: "no", because: `volume ${id} is ${where === undefined ? "in no network" : `in network ${where}`}` };
  }
  return undefined;
}

function decideNeed(what: string, found: Holdings["ofUser"]): Admission {
  const phases = new Set(found.map(({ phase }) => phase));
  if (phases.has("ACTIVE")) return { admit: "yes", because: `${what} is there` };
  if (phases.has("ORDERED") || phases.has("PROVISIONING"))
    return { admit: "later", because: `${what} is being provisioned` };
  return { admit: "no", because: `this user has no active ${what}` };
}

function decideCapacity(units: ResourceUnits, holdings: Holdings): Admission {
  for (const unit of UNITS) {
    const most = holdings.capacity[unit];
    if (most === undefined || units[unit] === 0n) continue;
    const { held } = holdings;
    if (held[unit] + units[unit] <= most) continue;
    const free = most > held[unit] ? most - held[unit] : 0n;
    return {
      admit: "no",
      because: `not enough free resources to support this ${WHAT[unit]} size: ${String(units[unit])} of ${unit.toUpperCase()} needed, ${String(free)} free`,
    };
  }
  return { admit: "yes", because: "what it takes is free" };
}
