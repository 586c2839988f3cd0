import { expect, it } from "vitest";
import { adviceFor, explainPodsLeft, withGoneHolders, type PodLeft } from "./build-explanation.ts";
import type { ReservationExplanation } from "./reservation.ts";

const LEFT: PodLeft = { owner: "job/train-1", name: "train", pod: "default/train-worker-0", node: "node-a" };
const WAITS = { code: "POOL_AVAILABILITY", message: "pool p has 0 of 1 machine", next: "" };

function waitingFor(...owners: readonly string[]): ReservationExplanation {
  const holders = owners.map((owner) => ({ owner, machines: 1, sinceMs: 0 }));
  const counts = { requested: 1, available: 0, kept: 0, capacity: 1, held: 1, elasticMax: 0, unusable: 0 };
  return {
    reservation: {
      id: "r",
      ownerKind: "session",
      ownerId: "echo",
      state: "waiting",
      needs: [],
      machines: [],
      priority: 0,
      createdAtMs: 0,
      grantedAtMs: undefined,
      because: undefined,
    },
    code: "POOL_AVAILABILITY",
    message: "",
    pools: [{ ...counts, pool: "p", unusableNodes: [], unusableMore: 0, holders, holdersMore: 0 }],
    place: { ahead: 0, byPriority: [] },
    hold: undefined,
    concurrency: undefined,
  };
}

it("says that the job which has the machine is gone, and how to get rid of its pod", () => {
  expect(explainPodsLeft([LEFT])).toEqual({
    code: "JOB_GONE",
    message: "its job is gone; pod default/train-worker-0 is still on node-a: delete it",
    next: "kubectl delete pod -n default train-worker-0",
  });
  expect(explainPodsLeft([])).toBeUndefined();
});

it.each(["job/train-1", "job/train-1--worker-0"])(
  "says to who waits that %s is gone and still holds a machine",
  (owner) => {
    expect(withGoneHolders({ ...WAITS, next: "mend it" }, waitingFor("session/other", owner), [LEFT])).toEqual({
      code: "POOL_AVAILABILITY",
      message:
        "pool p has 0 of 1 machine; job/train-1 is gone, and its pod default/train-worker-0 still keeps a machine",
      next: "kubectl delete pod -n default train-worker-0; mend it",
    });
  },
);

it("says nothing of jobs that are gone to who waits for others, or for nothing", () => {
  expect(withGoneHolders(WAITS, waitingFor("job/other-1"), [LEFT])).toEqual(WAITS);
  expect(withGoneHolders(WAITS, { ...waitingFor("job/train-1"), code: "" }, [LEFT])).toEqual(WAITS);
  expect(withGoneHolders(WAITS, undefined, [LEFT])).toEqual(WAITS);
});

it("names the setting behind a limit of sessions at once", () => {
  expect(adviceFor({ ...waitingFor(), code: "CONCURRENCY_LIMIT" })).toContain("SESSION_EXECUTORS");
});
