import { expect, it } from "vitest";
import {
  adviseWait,
  explainLeftoverPods,
  isWaitingForNodes,
  withGoneHolders,
  type SeenMachines,
} from "./explanation.ts";

const LEFT = { owner: "job/train-1", name: "train", pod: "default/train-worker-0", node: "node-a" };
const WAITS = { code: "POOL_AVAILABILITY", message: "pool p has 0 of 1 machine", next: "" };

function waitingFor(...holders: readonly string[]): SeenMachines {
  const pools = [{ pool: "p", unusable: 0, elasticMax: 0, holders }];
  return { code: "POOL_AVAILABILITY", message: "", components: [], pools };
}

it("names the pod of a job that is gone, and how to delete it", () => {
  expect(explainLeftoverPods([LEFT])).toEqual({
    code: "JOB_GONE",
    message: "its job is gone; pod default/train-worker-0 is still on node-a: delete it",
    next: "kubectl delete pod -n default train-worker-0",
  });
  expect(explainLeftoverPods([])).toBeUndefined();
});

it.each(["job/train-1", "job/train-1--worker-0"])("names %s, which is gone and still holds a machine", (owner) => {
  expect(withGoneHolders({ ...WAITS, next: "mend it" }, waitingFor("session/other", owner), [LEFT])).toEqual({
    code: "POOL_AVAILABILITY",
    message: "pool p has 0 of 1 machine; job/train-1 is gone, and its pod default/train-worker-0 still keeps a machine",
    next: "kubectl delete pod -n default train-worker-0; mend it",
  });
});

it("omits deleted jobs if other owners hold the machines, or if the owner does not wait", () => {
  expect(withGoneHolders(WAITS, waitingFor("job/other-1"), [LEFT])).toEqual(WAITS);
  expect(withGoneHolders(WAITS, { ...waitingFor("job/train-1"), code: "" }, [LEFT])).toEqual(WAITS);
  expect(withGoneHolders(WAITS, undefined, [LEFT])).toEqual(WAITS);
});

it("advises about a limit of sessions and about unusable nodes", () => {
  expect(adviseWait({ ...waitingFor(), code: "CONCURRENCY_LIMIT" })).toContain("SESSION_EXECUTORS");
  const pools = [{ pool: "p", unusable: 2, elasticMax: 0, holders: [] }];
  expect(adviseWait({ code: "POOL_AVAILABILITY", pools })).toBe("repair the 2 unusable nodes of pool p");
});

it("does not advise to repair a healthy node in use", () => {
  const advice = (...reasons: readonly string[]): string =>
    adviseWait({
      code: "POOL_AVAILABILITY",
      pools: [{ pool: "p", unusable: 2, unusableNodes: reasons.map((reason) => ({ reason })) }],
    });
  expect(advice("FOREIGN_USE", "FOREIGN_USE")).toBe("wait for the holders, end one of them, or enlarge the pool");
  expect(advice("NOT_READY", "FOREIGN_USE")).toBe("repair the 1 unusable node of pool p");
});

it.each([
  ["HELD_FOR_OLDER", "wait, or raise `priority` to overtake the older request"],
  ["WAITING_FOR_TOPOLOGY", "wait, or label or add nodes"],
  ["FRAGMENTED", "wait until more becomes free on one machine, request smaller parts, or add a machine"],
  ["BEHIND_HIGHER_PRIORITY", "wait for the request that goes first, or raise `priority`"],
  ["POOL_TOO_SMALL", "repair or add nodes of the pool, or cancel it and request less"],
])("returns the advice of the reference for %s", (code, advice) => {
  expect(adviseWait({ code, pools: [{ pool: "p", unusable: 0 }] })).toBe(advice);
});

it("expects nodes only where a pool may grow and no limit prevents it", () => {
  const elastic = { ...waitingFor(), pools: [{ pool: "p", unusable: 0, elasticMax: 4, holders: [] }] };
  expect(isWaitingForNodes(elastic)).toBe(true);
  expect(isWaitingForNodes({ ...elastic, code: "CONCURRENCY_LIMIT" })).toBe(false);
  expect(isWaitingForNodes(waitingFor())).toBe(false);
});

it.each(["WAITING_FOR_QUOTA", "KEPT_FOR_OWNER", "BEHIND_STRICT_HEAD", "QUEUE_UNKNOWN", "QUEUE_HELD", "QUOTA_EXCEEDED"])(
  "advises about the queue, and expects no nodes, at %s",
  (code) => {
    const pools = [{ pool: "p", unusable: 2, elasticMax: 4, holders: [] }];
    expect(adviseWait({ code, pools })).toMatch(/quota|queue/);
    expect(isWaitingForNodes({ code, pools })).toBe(false);
  },
);

it("advises to wait for work that leaves, and expects no nodes for it", () => {
  const pools = [{ pool: "p", unusable: 2, elasticMax: 4, holders: [] }];
  const code = "WAITING_FOR_PREEMPTED";
  expect(adviseWait({ code, pools })).toContain("deadline");
  expect(isWaitingForNodes({ code, pools })).toBe(false);
});
