import { expect, it } from "vitest";
import { planUnservedEvents, type UnservedMemory, type UnservedJob } from "./plan-unserved-events.ts";

const MINUTE_MS = 60_000;

function job(name: string): UnservedJob {
  return { apiVersion: "muster.dev/v1", kind: "Job", namespace: "other", name, uid: `uid-${name}` };
}

/** Returns names by scan, with one scan per minute. */
function looks(each: readonly (readonly UnservedJob[])[], mayReport = true) {
  let memory: UnservedMemory = new Map();
  return each.map((found, minute) => {
    const plan = planUnservedEvents(found, memory, { nowMs: minute * MINUTE_MS, mayReport });
    memory = plan.memory;
    return [plan.unserved.map(({ name }) => name), plan.report.map(({ name }) => name)];
  });
}

it.each<[title: string, found: UnservedJob[][], plans: string[][][]]>([
  [
    "is unserved if two consecutive scans find it without a controller, and is reported once",
    [[job("a")], [job("a")], [job("a")]],
    [
      [[], []],
      [["a"], ["a"]],
      [["a"], []],
    ],
  ],
  [
    "is left to a controller that serves it between two scans",
    [[job("a")], [], []],
    [
      [[], []],
      [[], []],
      [[], []],
    ],
  ],
  [
    "is forgotten after its deletion, so that a new job of its name starts from the first scan",
    [[job("a")], [], [job("a")]],
    [
      [[], []],
      [[], []],
      [[], []],
    ],
  ],
])("a job in another namespace %s", (_title, found, plans) => {
  expect(looks(found)).toEqual(plans);
});

it("repeats an event before the API server deletes it", () => {
  const reports = looks(Array.from({ length: 110 }, () => [job("a")])).flatMap(([, report], minute) =>
    report?.length === 1 ? [minute] : [],
  );
  expect(reports).toEqual([1, 51, 101]);
});

it("records the jobs in a replica that does not lead, and reports none", () => {
  expect(looks([[job("a")], [job("a")]], false)).toEqual([
    [[], []],
    [["a"], []],
  ]);
});
