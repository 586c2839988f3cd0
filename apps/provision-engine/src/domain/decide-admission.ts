import type { LeaseReason } from "./lease-reason.ts";
import { mayHoldResources } from "./lease.ts";
import { addUnits, type ResourceUnits, type LeaseClaim, type NeighbourLease, type ClaimSurroundings } from "./claim.ts";

export type Admission =
  | { readonly kind: "yes"; readonly because: LeaseReason }
  /** Waits for leases that are being provisioned or removed, until one of them changes. */
  | { readonly kind: "later"; readonly leases: readonly string[]; readonly because: LeaseReason }
  | { readonly kind: "no"; readonly because: LeaseReason };

const UNITS = ["mru", "cru", "sru", "hru"] as const;

/**
 * Decides whether a lease may be provisioned now: its dependencies are active and belong to its user, and the capacity suffices. The lease may use the last
 * free unit.
 */
export function decideAdmission(claim: LeaseClaim, around: ClaimSurroundings): Admission {
  const need = decideNeeds(claim, around);
  return need.kind === "yes" ? decideCapacity(addUnits(claim.units, around.overhead), around) : need;
}

function decideNeeds({ needs, network }: LeaseClaim, { named }: ClaimSurroundings): Admission {
  const volumes = needs.volumes.map((id) => {
    const found = named.filter((each) => each.id === id && each.type === "volume");
    return decideReach(id, found, needs.networks) ?? decideNeed(`volume ${id}`, found);
  });
  const networks = needs.networks.map((name) =>
    decideNeed(
      `network ${name}`,
      named.filter((each) => each.network === name),
    ),
  );
  const all = [...volumes, ...networks, ...(network === undefined ? [] : [decideNetwork(network, named)])];
  const hindrance = all.find(({ kind }) => kind === "no") ?? all.find(({ kind }) => kind === "later");
  return hindrance ?? { kind: "yes", because: { code: all.length === 0 ? "needs-nothing" : "needs-active" } };
}

/** A network belongs to one lease. The user of a second order for the network renews that lease instead. */
function decideNetwork(name: string, named: readonly NeighbourLease[]): Admission {
  const others = named.filter((each) => mayHoldResources(each.phase) && each.network === name);
  const [other] = others;
  if (other === undefined) return { kind: "yes", because: { code: "network-free", network: name } };
  const existing = others.find(({ phase }) => phase !== "DECOMMISSIONING");
  if (existing !== undefined)
    return { kind: "no", because: { code: "network-taken", network: name, lease: existing.id } };
  return {
    kind: "later",
    leases: listIds(others),
    because: { code: "network-being-removed", network: name, lease: other.id },
  };
}

/** A volume can be mounted only in its own network, or, without a network, only outside of networks. */
function decideReach(id: string, found: readonly NeighbourLease[], networks: readonly string[]): Admission | undefined {
  const [network] = networks;
  const elsewhere = found.find(({ within }) => within !== network);
  if (elsewhere === undefined) return undefined;
  const { within } = elsewhere;
  return { kind: "no", because: { code: "volume-elsewhere", volume: id, within } };
}

function decideNeed(need: string, found: readonly NeighbourLease[]): Admission {
  if (found.some(({ phase }) => phase === "ACTIVE")) return { kind: "yes", because: { code: "need-active", need } };
  const coming = found.filter(({ phase }) => phase === "ORDERED" || phase === "PROVISIONING");
  if (coming.length > 0) return { kind: "later", leases: listIds(coming), because: { code: "need-coming", need } };
  return { kind: "no", because: { code: "need-missing", need } };
}

function listIds(leases: readonly NeighbourLease[]): string[] {
  return leases.map(({ id }) => id);
}

function decideCapacity(units: ResourceUnits, { capacity, held }: ClaimSurroundings): Admission {
  for (const unit of UNITS) {
    const limit = capacity[unit];
    if (limit === undefined || units[unit] === 0n) continue;
    if (held[unit] + units[unit] <= limit) continue;
    const free = limit > held[unit] ? limit - held[unit] : 0n;
    return {
      kind: "no",
      because: { code: "capacity-short", unit, needed: units[unit], free },
    };
  }
  return { kind: "yes", because: { code: "capacity-suffices" } };
}

/** Whether the resources of a lease may be removed. */
type Release =
  | { readonly kind: "yes"; readonly because: LeaseReason }
  /** `lease` is one of the users of the lease. */
  | { readonly kind: "later"; readonly lease: string; readonly because: LeaseReason };

/** Maximum number of users of a lease that a text names. */
export const MAX_NAMED_USERS = 5;

/** A network stays while leases use it, a volume while it may be mounted. */
export function decideDecommission({ users }: Pick<ClaimSurroundings, "users">): Release {
  const [first] = users.some;
  if (first === undefined) return { kind: "yes", because: { code: "unused" } };
  const named = users.some.slice(0, MAX_NAMED_USERS);
  const more = Math.max(0, users.count - named.length);
  return { kind: "later", lease: first, because: { code: "in-use", users: named, more } };
}
