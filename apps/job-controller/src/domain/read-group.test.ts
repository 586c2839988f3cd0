import { expect, it } from "vitest";
import { toFields, type ReadNotes } from "./read-fields.ts";
import { readGroup } from "./read-group.ts";
import type { GroupRequest } from "./pod-group.ts";

const containers = [{ name: "main" }];

function read(schedulers: readonly (string | undefined)[], policy: object = {}, scheduler?: string) {
  const notes: ReadNotes = { problems: [], warnings: [] };
  const fields = toFields({ runPolicy: { schedulingPolicy: policy } }, "spec", notes);
  if (fields === undefined) throw new Error("no fields");
  const drafts = schedulers.map((schedulerName) => ({
    template: { spec: { containers, ...(schedulerName !== undefined && { schedulerName }) } },
  }));
  return { group: readGroup(fields, drafts, { scheduler }), ...notes };
}

it.each<[title: string, schedulers: (string | undefined)[], configured: string | undefined, group: string | undefined]>(
  [
    ["the cluster's own by default", [undefined, ""], undefined, undefined],
    ["the cluster's own, when the templates name it", ["default-scheduler"], "volcano", undefined],
    ["the one that the templates name", ["volcano", "volcano"], undefined, "volcano"],
    ["the configured one, when the templates name none", [undefined, undefined], "gangs", "gangs"],
    ["the configured one, when some templates name it, too", [undefined, "gangs"], "gangs", "gangs"],
  ],
)("the scheduler of a gang is %s", (_title, schedulers, configured, scheduler) => {
  const { group, warnings } = read(schedulers, {}, configured);
  expect(group).toEqual(scheduler === undefined ? undefined : { scheduler, settings: {} });
  expect(warnings).toEqual([]);
});

it("templates with different schedulers leave each pod to its own scheduler, with a warning", () => {
  const { group, warnings } = read(["volcano", undefined]);
  expect(group).toBeUndefined();
  expect(warnings.map(({ reason }) => reason)).toEqual([
    expect.stringContaining("default-scheduler and volcano: none of them gets a group"),
  ]);
});

const policy = {
  queue: "q",
  priorityClass: "high",
  minResources: { cpu: 8, memory: "16Gi" },
  scheduleTimeoutSeconds: 9,
};

it("its settings are those of the policy", () => {
  const { group } = read(["volcano"], policy);
  const { priorityClass: priorityClassName, ...same } = policy;
  expect(group).toEqual<GroupRequest>({ scheduler: "volcano", settings: { ...same, priorityClassName } });
});

it("unused settings are named", () => {
  expect(read([undefined], policy).warnings.map(({ field }) => field)).toEqual([
    "spec.runPolicy.schedulingPolicy.minResources",
    "spec.runPolicy.schedulingPolicy.priorityClass",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
  ]);
});

it.each([true, "much", "1 Gi", { cpu: 1 }])("a quantity of %o is refused", (memory) => {
  expect(read(["volcano"], { minResources: { memory } }).problems).toEqual([
    expect.objectContaining({ field: "spec.runPolicy.schedulingPolicy.minResources.memory" }),
  ]);
});
