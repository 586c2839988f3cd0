import { expect, it } from "vitest";
import { groupWaits, latestFailures, readWorkFilter, selectWork, type WorkFilter } from "./select-work.ts";
import type { Work } from "./work.ts";

const BASE: Work = {
  kind: "session",
  id: "echo",
  name: "echo",
  type: "",
  stage: "running",
  state: "RUN",
  pools: ["gpu"],
  machines: 2,
  createdAtMs: 100,
  finishedAtMs: 0,
  code: "",
  because: "",
  ownerId: "",
  traceparent: "",
};
const waiting = { stage: "waiting", state: "QUEUE", code: "POOL_AVAILABILITY" } as const;
const WORK: readonly Work[] = [
  BASE,
  { ...BASE, id: "slow", ...waiting, because: "3 are free" },
  { ...BASE, kind: "job", id: "default/train", type: "TFJob", ...waiting, createdAtMs: 50, ownerId: "train-4b4b0d" },
  { ...BASE, kind: "job", id: "default/old", type: "Job", stage: "failed", state: "FAILED", finishedAtMs: 10 },
  { ...BASE, kind: "lease", id: "3-1", stage: "failed", state: "FAILED", finishedAtMs: 20, pools: [] },
  { ...BASE, kind: "replica-set", id: "web", stage: "starting", state: "INCOMPLETE", code: "TOO_FEW_NODES" },
];
const ids = (work: readonly Work[]) => work.map(({ id }) => id).join(" ");

it.each<[filter: WorkFilter, ids: string]>([
  [{}, "echo slow default/train default/old 3-1 web"],
  [{ kind: "job" }, "default/train default/old"],
  [{ stage: "failed" }, "default/old 3-1"],
  [{ kind: "job", stage: "failed" }, "default/old"],
  [{ q: "TRAIN" }, "default/train"],
  [{ q: "pool_availability free" }, "slow"],
  [{ q: "gpu tfjob" }, "default/train"],
  [{ q: "train-4b4b0d" }, "default/train"],
  [{ q: "   " }, "echo slow default/train default/old 3-1 web"],
  [{ q: "nothing like it" }, ""],
])("%j selects %s", (filter, selected) => {
  expect(ids(selectWork(WORK, filter))).toBe(selected);
});

it.each<[query: Record<string, unknown>, filter: WorkFilter]>([
  [{}, {}],
  [
    { q: "a b", kind: "job", stage: "failed" },
    { q: "a b", kind: "job", stage: "failed" },
  ],
  [{ q: 17 }, { q: "17" }],
  [{ q: "", kind: "cat", stage: ["failed"] }, {}],
])("the query %j is the filter %j", (query, filter) => {
  expect(readWorkFilter(query)).toEqual(filter);
});

it("groups waiting work by its reason, the most frequent first", () => {
  expect(groupWaits(WORK)).toEqual([
    { code: "POOL_AVAILABILITY", because: "3 are free", count: 2, oldestMs: 50, filter: { q: "POOL_AVAILABILITY" } },
    { code: "TOO_FEW_NODES", because: "", count: 1, oldestMs: 100, filter: { q: "TOO_FEW_NODES" } },
  ]);
});

it("groups work without a code by the text of its reason, whatever numbers it names", () => {
  const wait = { stage: "waiting", state: "QUEUE" } as const;
  const all = ["it waits for 1 of 3", "it waits for 2 of 3", "no queue team-a"].map((because) => ({
    ...BASE,
    ...wait,
    because,
  }));
  const filter = { kind: "session", stage: "waiting" } as const;
  expect(groupWaits(all)).toEqual([
    { code: "QUEUE", because: "it waits for 1 of 3", count: 2, oldestMs: 100, filter },
    { code: "QUEUE", because: "no queue team-a", count: 1, oldestMs: 100, filter },
  ]);
});

it("lists the newest failures first, up to the limit", () => {
  expect(ids(latestFailures(WORK, 5))).toBe("3-1 default/old");
  expect(ids(latestFailures(WORK, 1))).toBe("3-1");
});
