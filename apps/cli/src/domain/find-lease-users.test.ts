import { expect, it } from "vitest";
import { aLease } from "./a-lease.ts";
import { findLeaseUsers } from "./find-lease-users.ts";
import type { Lease } from "./lease.ts";

const { order } = aLease();
const lease = (id: string, type: string, data: unknown, changes: Partial<Lease> = {}, user = order.user): Lease =>
  aLease({ ...changes, order: { ...order, id, type, user, data: JSON.stringify(data) } });
const container = (network: string | undefined, ...volumes: readonly string[]) => ({
  image: "i",
  capacity: { cpu: 1, memory: 1024 },
  network,
  mounts: volumes.map((volume_id) => ({ volume_id, mountpoint: "/data" })),
});

const net = lease("1-1", "network", { name: "net" });
const volume = lease("1-2", "volume", { size: 1, type: "ssd", network: "net" });
const leases = [
  net,
  volume,
  lease("1-3", "container", container("net", "1-2")),
  lease("1-4", "container", container("other")),
  lease("1-5", "container", container("net", "1-2"), { phase: "ENDED" }),
  lease("1-10", "container", container("net", "1-2"), { phase: "DECOMMISSIONING" }),
  lease("1-6", "container", container("net"), {}, "somebody else"),
  lease("1-7", "zdb", { size: 1, mode: "user", disk_type: "ssd", network: "net" }, { phase: "ORDERED" }),
  lease("1-8", "container", { network: "net" }),
  lease("1-9", "debug", { network: "net" }),
];

it.each([
  ["a network those that live in it", net, ["1-2", "1-3", "1-7"]],
  ["a volume those that mount it", volume, ["1-3"]],
  ["any other lease nobody", lease("1-3", "container", container("net")), []],
])("finds as users of %s", (_what, of, users) => {
  expect(findLeaseUsers(of, leases)).toEqual(users);
});
