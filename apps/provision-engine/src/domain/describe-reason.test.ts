import { expect, it } from "vitest";
import { describeReason, describeRefusal } from "./describe-reason.ts";
import type { LeaseReason } from "./lease-reason.ts";

it.each<[LeaseReason, string]>([
  [{ code: "network-taken", network: "net", lease: "1-3" }, "lease 1-3 of this user already has network net"],
  [{ code: "network-being-removed", network: "net", lease: "1-3" }, "network net of lease 1-3 is being taken down"],
  [{ code: "in-use", users: ["1-3", "1-4"], more: 2 }, "it is in use by 1-3, 1-4 and 2 more"],
  [{ code: "reference-gone" }, "upgrade refused: the lease no longer exists"],
  [{ code: "reference-coming", lease: "1-1" }, "lease 1-1 is being provisioned"],
  [{ code: "container-exited", how: "exit code 1 (Error)" }, "its container has exited, exit code 1 (Error)"],
  [{ code: "may-have-workload", lease: "1-1" }, "it may have the workload of lease 1-1"],
  [{ code: "ends", cause: undefined }, "it ends"],
  [{ code: "ends", cause: "EXPIRED" }, "EXPIRED"],
  [{ code: "retry-pause", trouble: "kubernetes is not available" }, "kubernetes is not available"],
  [{ code: "heir-has-workload", lease: "2-1" }, "lease 2-1 has its workload"],
])("describes %o", (reason, text) => {
  expect(describeReason(reason)).toBe(text);
});

it("begins the result of a refused order in the same way for every reason", () => {
  const reason: LeaseReason = { code: "type-not-served", type: "zdb" };
  expect(describeRefusal(reason)).toBe("failed to apply provision: type of reservation not served: zdb");
});
