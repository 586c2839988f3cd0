import type { Order } from "@muster/leases";
import { readData, type LeaseData } from "@muster/leases/data";
import type { Lease } from "./lease.ts";

const LIVING = ["ORDERED", "PROVISIONING", "ACTIVE"];

type Need = { readonly network?: string | undefined; readonly volumes: readonly string[] };

/** Ids of those that live in this network, or mount this volume, and are not about to end: it is not taken down before them. None of a lease of another type. */
export function findLeaseUsers({ order }: Pick<Lease, "order">, leases: readonly Lease[]): string[] {
  const network = order.type === "network" ? dataOf("network", order)?.name : undefined;
  return leases
    .filter((each) => LIVING.includes(each.phase) && each.order.user === order.user && each.order.id !== order.id)
    .filter((each) => {
      const need = needOf(each.order);
      return order.type === "volume"
        ? need.volumes.includes(order.id)
        : network !== undefined && need.network === network;
    })
    .map((each) => each.order.id);
}

/** Whether others may live in it at all. */
export function mayHaveUsers({ order }: Pick<Lease, "order">): boolean {
  return order.type === "network" || order.type === "volume";
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
