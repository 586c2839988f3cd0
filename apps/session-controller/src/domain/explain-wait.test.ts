import { expect, it } from "vitest";
import {
  makeLivePod,
  makePodSeen,
  makeProvisioning,
  makeRecord,
  makeRunning,
  makeSnapshot,
  START_MS,
} from "../../test/samples.ts";
import { explainReason, explainWait } from "./explain-wait.ts";
import type { Snapshot, WaitReason } from "./snapshot.ts";

const numbers = { pool: "workers", requested: 3, available: 1, ahead: 0 };

it.each<[WaitReason | undefined, string]>([
  [undefined, "the ledger has given no reason yet"],
  [{ ...numbers, code: "POOL_AVAILABILITY" }, "pool workers has 1 machine free, 3 are needed"],
  [
    { ...numbers, code: "POOL_AVAILABILITY", nodes: "disk=ssd" },
    "pool workers has 1 machine free that its pods accept (disk=ssd), 3 are needed",
  ],
  [
    { ...numbers, code: "POOL_AVAILABILITY", parts: 2 },
    "pool workers has room for 1 of the 3 needed parts and machines",
  ],
  [
    { ...numbers, code: "WAITING_FOR_TOPOLOGY", topology: "rack", ahead: 1 },
    "3 machines, or parts of machines, are needed on nodes with one value of the label rack, and no value has room for more than 1; 1 request is ahead",
  ],
  [
    { ...numbers, code: "HELD_FOR_OLDER" },
    "machines of pool workers are kept for a request that has waited for too long",
  ],
  [
    { ...numbers, code: "BEHIND_FAIR_SHARE" },
    "machines of pool workers are kept for a request of another queue, which borrows less or has a lower share",
  ],
  [
    { ...numbers, code: "CONCURRENCY_LIMIT", ahead: 2 },
    "as many sessions as SESSION_EXECUTORS allows are running; 2 requests are ahead",
  ],
  [{ ...numbers, code: "POOLS_NOT_KNOWN_YET" }, "the ledger does not know the nodes yet"],
  [{ ...numbers, code: "OTHER" }, "the ledger gives a reason that is not known here"],
])("explains %j", (because, text) => {
  expect(explainReason(because)).toBe(text);
});

const verdict = { kind: "DONE", atMs: START_MS, description: "well", reason: "" } as const;
const left = (count: number) =>
  Array.from({ length: count }, (_, index) => makeLivePod(makePodSeen(`c${String(index)}`)));
const slow = makeProvisioning([]).components.map((each, index) =>
  index === 0 ? { ...each, state: "NOT_READY" as const, message: "no image" } : { ...each, state: "READY" as const },
);

it.each<[string, Partial<Snapshot>, string]>([
  ["trouble before all else", { record: makeRunning({ verdict }), trouble: "NATS is away" }, "NATS is away"],
  [
    "pods that are not gone",
    { record: makeRunning({ verdict, logsCollected: true }), livePods: left(2) },
    "2 pods are not gone yet",
  ],
  [
    "one pod that is not gone",
    { record: makeRunning({ verdict, logsCollected: true }), livePods: left(1) },
    "1 pod is not gone yet",
  ],
  ["nothing once the pods are gone", { record: makeRunning({ verdict, logsCollected: true }), livePods: [] }, ""],
  ["nothing of pods whose logs are not kept yet", { record: makeRunning({ verdict }), livePods: left(1) }, ""],
  ["nothing of pods that were not listed", { record: makeRunning({ verdict, logsCollected: true }) }, ""],
  ["what the record waits for", { record: makeRecord({ waitingBecause: "the pool is full" }) }, "the pool is full"],
  [
    "what the ledger waits for",
    {
      record: makeRecord({ waitingBecause: "old" }),
      reservation: { state: "waiting", because: undefined } as Snapshot["reservation"],
    },
    "the ledger has given no reason yet",
  ],
  [
    "components that are not ready",
    { record: makeProvisioning([], { components: slow }) },
    "driver is NOT_READY (no image)",
  ],
  ["nothing while no component is in trouble", { record: makeProvisioning([]) }, ""],
  ["nothing of components once the session runs", { record: makeRunning({ components: slow }) }, ""],
])("explains %s", (_title, more, text) => {
  const world = makeSnapshot(more);
  expect(explainWait(world, world.record.components)).toBe(text);
});

it.each([
  [1024, "x".repeat(1024)],
  [1025, `${"x".repeat(1021)}...`],
])("truncates an explanation of %d characters to 1024", (length, text) => {
  expect(explainWait(makeSnapshot({ trouble: "x".repeat(length) }), [])).toBe(text);
});
