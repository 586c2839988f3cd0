import { expect, it } from "vitest";
import { makeEndedPod, makePodFact, makeReplica, makeReplicaSeen, makeSpec } from "../../test/samples.ts";
import { findFailedMembers, MAX_FAILED_GROUPS } from "./find-failed-members.ts";
import { NEW_STATUS } from "./job-status.ts";
import type { PodFact } from "./snapshot.ts";

function find(...pods: readonly PodFact[]) {
  const job = makeSpec({ replicas: [makeReplica("worker", pods.length)] });
  return findFailedMembers({ replicas: [makeReplicaSeen("worker", pods)] }, job, NEW_STATUS);
}

it.each<[title: string, member: PodFact, message: string | undefined]>([
  ["a pod that failed", makeEndedPod("worker-0", 3), "exit code 3"],
  ["a pod that the kubelet evicted", makeEndedPod("worker-0", 137, { reason: "Evicted" }), "Evicted, exit code 137"],
  [
    "a container that is down after a failure",
    makePodFact("worker-0", { down: [{ container: "main", code: 4 }], containerRestarts: 2 }),
    "down after exit code 4, 2 restarts",
  ],
  ["no pod that succeeded", makeEndedPod("worker-0", 0), undefined],
  ["no pod that runs", makePodFact("worker-0"), undefined],
  ["no pod that the end of the job deletes", makeEndedPod("worker-0", 143, { deleting: true }), undefined],
  ["no pod of an earlier attempt", makeEndedPod("worker-0", 3, { attempt: -1 }), undefined],
])("finds %s", (_, member, message) => {
  expect(find(member)).toEqual(message === undefined ? [] : [{ type: "worker", indexes: [0], message }]);
});

it("keeps every failed member, without messages if the ends are too different", () => {
  const pods = (count: number) =>
    Array.from({ length: count }, (_, index) => makeEndedPod(`worker-${index}`, index + 1));
  expect(find(...pods(MAX_FAILED_GROUPS))).toHaveLength(MAX_FAILED_GROUPS);
  const indexes = Array.from({ length: MAX_FAILED_GROUPS + 1 }, (_, index) => index);
  expect(find(...pods(MAX_FAILED_GROUPS + 1))).toEqual([{ type: "worker", indexes, message: "" }]);
});
