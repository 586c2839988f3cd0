import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { makeRollout, makeSet } from "../../test/a-set.ts";
import { explainAnswer, type ExplainedSet } from "./explain-answer.ts";

const { HEALTH_NOT_READY, HEALTH_READY } = muster.health.v1.Health;
const MESSAGE = {
  replicas: [{ node: "n-1", pod: "web-1", health: HEALTH_NOT_READY, reason: "Err", message: "m", eligible: true }],
  replicasDesired: 1,
  farm: "farm-1",
};

function shown(rest: Partial<ExplainedSet> = {}): ExplainedSet {
  return { set: makeSet(), message: MESSAGE, rollout: undefined, nodes: [], ...rest };
}

it("explains a set by what its message shows", () => {
  expect(explainAnswer(shown(), 0)).toMatchObject({
    kind: "replica-set",
    name: "web",
    phase: "CHANGING",
    reasons: [{ code: "NOT_HEALTHY", message: "1 wanted, 1 placed, 0 ready; web-1 on n-1 is NOT_READY: Err: m" }],
  });
  const replicas = [{ ...MESSAGE.replicas[0], health: HEALTH_READY }];
  expect(explainAnswer(shown({ message: { ...MESSAGE, replicas, healthy: 1 } }), 0)).toMatchObject({
    phase: "READY",
    reasons: [{ code: "READY" }],
  });
});

it("explains a set in a rolling update by the counts of the update", () => {
  const rollout = {
    record: makeRollout({ createdAtMs: 5 }),
    message: { newCurrent: 1, newHealthy: 1, oldCurrent: 2, waitingBecause: "it is paused" },
  };
  const message =
    "roll web-2 RUNNING: web-2 has 1 of 3, 1 ready; web has 2, 0 ready; at least 2 stay ready (it is paused)";
  expect(explainAnswer(shown({ set: makeSet({ rollout: "web-2" }), rollout }), 0)).toMatchObject({
    phase: "ROLLING",
    sinceMs: 5,
    reasons: [{ code: "IN_ROLL", message }],
  });
});
