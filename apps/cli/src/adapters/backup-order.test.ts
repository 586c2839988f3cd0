import { buckets, streams } from "@muster/proto";
import { expect, it } from "vitest";
import { orderBackupStreams } from "./backup-order.ts";

it("copies every stream and bucket once: the ledger after all that relies on it, then locks, then the id of the installation", () => {
  const order = orderBackupStreams().flatMap((group) => group.streams);
  const all = [
    ...Object.values(streams).map(({ name }) => name),
    ...Object.values(buckets).map((name) => `KV_${name}`),
  ];
  expect(order.toSorted()).toEqual(all.toSorted());
  expect(order.slice(-5)).toEqual([
    "KV_muster-snapshots",
    "MUSTER_LEDGER",
    "KV_muster-locks",
    "KV_muster-farm-locks",
    "KV_muster-installation",
  ]);
});
