import { expect, it } from "vitest";
import { makeLease } from "../../test/a-lease.ts";
import { findLeaseUsers } from "./find-lease-users.ts";
import type { Lease } from "../adapters/lease-messages.ts";

const { order } = makeLease();
const lease = (id: string, type: string, data: unknown, changes: Partial<Lease> = {}, user = order.user): Lease =>
  makeLease({ ...changes, order: { ...order, id, type, user, data: JSON.stringify(data) } });
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
  lease("1-6", "container", container("net"), {}, "another user"),
  lease("1-7", "zdb", { size: 1, mode: "user", disk_type: "ssd", network: "net" }, { phase: "ORDERED" }),
  lease("1-8", "container", { network: "net" }),
  lease("1-9", "debug", { network: "net" }),
];

const heir = lease("4711-2", "volume", { size: 1, type: "ssd" });
const secondHeir = { ...heir, order: { ...heir.order, id: "4711-3", reference: "4711-2" } };
const firstHeir = { ...heir, order: { ...heir.order, reference: "4711-1" } };
const migrated = { phase: "ENDED", ending: { cause: "MIGRATED", message: "", atNs: 1n } };
const mounting = ["4711-1", "4711-2", "4711-3"].map((id, at) => lease(`5-${at}`, "container", container("net", id)));

it.each<[what: string, of: Lease, others: readonly Lease[], users: readonly string[]]>([
  ["by every id that it has had", secondHeir, [{ ...firstHeir, ...migrated }], ["5-0", "5-1", "5-2"]],
  ["even if the record of an older lease is gone", firstHeir, [], ["5-0", "5-1"]],
  ["and not by that of a lease which still has it", secondHeir, [firstHeir], ["5-2"]],
  [
    "and only once by a cyclic reference",
    { ...secondHeir, order: { ...secondHeir.order, reference: "4711-3" } },
    [],
    ["5-2"],
  ],
])("finds the leases that mount a volume %s", (_what, of, others, users) => {
  expect(findLeaseUsers(of, [of, ...others, ...mounting])).toEqual(users);
});

it.each([
  ["a network those that use it", net, ["1-2", "1-3", "1-7"]],
  ["a volume those that mount it", volume, ["1-3"]],
  ["any other lease has none", lease("1-3", "container", container("net")), []],
])("finds as users of %s", (_what, of, users) => {
  expect(findLeaseUsers(of, leases)).toEqual(users);
});
