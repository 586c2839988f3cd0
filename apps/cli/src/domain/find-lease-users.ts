import type { Order } from "@muster/leases";
import { readData, type LeaseData } from "@muster/leases/data";
import type { Lease } from "../adapters/lease-messages.ts";

const LIVING = ["ORDERED", "PROVISIONING", "ACTIVE"];

type Need = { readonly network?: string | undefined; readonly volumes: readonly string[] };

/**
 * Returns ids of unfinished leases that use this network, or mount this volume by any id it has had; it is not decommissioned before them. Leases of other
 * types have no users.
 */
export function findLeaseUsers({ order }: Pick<Lease, "order">, leases: readonly Lease[]): string[] {
  const line = order.type === "volume" ? lineOf(order, leases) : new Set<string>();
  const network = order.type === "network" ? dataOf("network", order)?.name : undefined;
  return leases
    .filter((each) => LIVING.includes(each.phase) && each.order.user === order.user && each.order.id !== order.id)
    .filter((each) => {
      const need = needOf(each.order);
      return order.type === "volume"
        ? need.volumes.some((id) => line.has(id))
        : network !== undefined && need.network === network;
    })
    .map((each) => each.order.id);
}

/** Returns whether other leases can use the lease. */
export function mayHaveUsers({ order }: Pick<Lease, "order">): boolean {
  return order.type === "network" || order.type === "volume";
}

/** Returns ids that the workload of this lease may have had. An id without a record counts too: an unnecessary request for --force does no harm. */
function lineOf(order: Order, leases: readonly Lease[]): ReadonlySet<string> {
  const found = new Map(leases.map((each) => [each.order.id, each]));
  const line = new Set([order.id]);
  for (let { reference } = order; reference !== undefined && !line.has(reference);) {
    const older = found.get(reference);
    if (older !== undefined && older.ending?.cause !== "MIGRATED") break;
    line.add(reference);
    reference = older?.order.reference;
  }
  return line;
}

function needOf(order: Order): Need {
  switch (order.type) {
    case "volume":
      return { network: dataOf("volume", order)?.network, volumes: [] };
    case "container": {
      const data = dataOf("container", order);
      return { network: data?.network, volumes: (data?.mounts ?? []).map(({ volume_id }) => volume_id) };
    }
    case "zdb":
      return { network: dataOf("zdb", order)?.network, volumes: [] };
    default:
      return { volumes: [] };
  }
}

function dataOf<Type extends "network" | "volume" | "container" | "zdb">(
  type: Type,
  { data }: Pick<Order, "data">,
): LeaseData<Type> | undefined {
  const read = readData(type, data);
  return read.ok ? read.data : undefined;
}
