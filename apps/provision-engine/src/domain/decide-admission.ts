import type { Order } from "@muster/leases";
import { networkOf } from "./count-leases.ts";
import type { LeaseRecord } from "./lease.ts";
import type { ResourceUnits } from "./resource-units.ts";
import type { Claim } from "./workload-type.ts";

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
  const need = decideNeeds(order, claim, holdings);
  return need.admit === "yes" ? decideCapacity(claim.units, holdings) : need;
}

function decideNeeds({ user }: Order, { needs }: Claim, { ofUser }: Holdings): Admission {
  const own = ofUser.filter((each) => each.order.user === user);
  const volumes = needs.volumes.map((id) =>
    decideNeed(
      `volume ${id}`,
      own.filter(({ order }) => order.id === id && order.type === "volume"),
    ),
  );
  const networks = needs.networks.map((name) =>
    decideNeed(
      `network ${name}`,
      own.filter(({ order }) => order.type === "network" && networkOf(order) === name),
    ),
  );
  const all = [...volumes, ...networks];
  const hindrance = all.find(({ admit }) => admit === "no") ?? all.find(({ admit }) => admit === "later");
  return hindrance ?? { admit: "yes", because: "what it needs is there" };
}

function decideNeed(what: string, found: Holdings["ofUser"]): Admission {
  const phases = new Set(found.map(({ phase }) => phase));
  if (phases.has("ACTIVE")) return { admit: "yes", because: `${what} is there` };
  if (phases.has("ORDERED") || phases.has("PROVISIONING"))
    return { admit: "later", because: `${what} is being provisioned` };
  return { admit: "no", because: `this user has no active ${what}` };
}

function decideCapacity(units: ResourceUnits, { held, capacity }: Holdings): Admission {
  for (const unit of UNITS) {
    const most = capacity[unit];
    if (most === undefined || units[unit] === 0n || held[unit] + units[unit] <= most) continue;
    const free = most > held[unit] ? most - held[unit] : 0n;
    return {
      admit: "no",
      because: `not enough free resources to support this ${WHAT[unit]} size: ${String(units[unit])} of ${unit.toUpperCase()} needed, ${String(free)} free`,
    };
  }
  return { admit: "yes", because: "what it takes is free" };
}
