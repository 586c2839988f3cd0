import { expect, it } from "vitest";
import {
  makeEndedPod,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { decideOutcome, countRestarts } from "./decide-outcome.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import type { JobSpec } from "./job.ts";
import type { ReplicaSeen } from "./snapshot.ts";
import { summariseReplicas } from "./summarise-replicas.ts";

const workers = (replicas: number): JobSpec => makeSpec({ replicas: [makeReplica("worker", replicas)] });

function after(of: JobSpec, status: JobStatus, ...replicas: readonly ReplicaSeen[]): JobStatus {
  return { ...status, replicas: summariseReplicas(of, status, replicas) };
}

it("keeps an index completed while the job temporarily lacks it", () => {
  const three = after(
    workers(3),
    NEW_STATUS,
    makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1"), makeEndedPod("worker-2", 0)]),
  );
  expect(three.replicas).toMatchObject([{ completedIndexes: [2], succeeded: 1 }]);
  const two = after(workers(2), three, makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1")]));
  expect(two.replicas).toMatchObject([{ completedIndexes: [2], succeeded: 0 }]);
  const again = after(
    workers(3),
    two,
    makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1"), undefined]),
  );
  expect(again.replicas).toMatchObject([{ completedIndexes: [2], succeeded: 1 }]);
});

it("does not require an index that the job no longer has", () => {
  const done: JobStatus = after(
    workers(3),
    NEW_STATUS,
    makeReplicaSeen("worker", [undefined, undefined, makeEndedPod("worker-2", 0)]),
  );
  const one = (count: number): JobSpec => ({ ...workers(count), success: [[{ type: "worker", indexes: "any" }]] });
  const outcome = (count: number): string =>
    decideOutcome(makeSnapshot({ spec: one(count) }), one(count), after(one(count), done), POLICY).kind;
  expect(outcome(3)).toBe("succeeded");
  expect(outcome(2)).toBe("going-on");
});

it("keeps the restarts of a removed type, and restores them with the type", () => {
  const both = makeSpec({ replicas: [makeReplica("worker", 1), makeReplica("helper", 1)] });
  const failed = makeEndedPod("helper-0", 1);
  const counted = after(
    both,
    NEW_STATUS,
    makeReplicaSeen("worker", [makePodFact("worker-0")]),
    makeReplicaSeen("helper", [failed]),
  );
  expect(countRestarts(counted)).toBe(1);
  const without = after(workers(1), counted, makeReplicaSeen("worker", [makePodFact("worker-0")]));
  expect(countRestarts(without)).toBe(1);
  expect(without.replicas).toMatchObject([{ type: "worker" }, { type: "helper", restarts: 1, active: 0, failed: 0 }]);
  // The pod of the removed type still exists, and does not count a second time.
  expect(
    countRestarts(
      after(both, without, makeReplicaSeen("worker", [makePodFact("worker-0")]), makeReplicaSeen("helper", [failed])),
    ),
  ).toBe(1);
});

it("forgets a removed type without a history", () => {
  const both = makeSpec({ replicas: [makeReplica("worker", 1), makeReplica("helper", 1)] });
  const counted = after(
    both,
    NEW_STATUS,
    makeReplicaSeen("worker", [makePodFact("worker-0")]),
    makeReplicaSeen("helper", [makePodFact("helper-0")]),
  );
  expect(after(workers(1), counted).replicas.map(({ type }) => type)).toEqual(["worker"]);
});
