import { expect, it } from "vitest";
import { computeScaling, type ScalingPlan } from "../src/domain/compute.ts";
import { aSnapshot, NOW } from "./scaling-snapshots.ts";

/** The differences between the world of a table row and an empty world. */
export type Given = Parameters<typeof aSnapshot>[0];
type Row = readonly [sentence: string, given: Given, expected: Partial<ReturnType<typeof show>>];

/** Formats a plan as briefly as possible. */
function show(plan: ScalingPlan) {
  return {
    start: plan.start.map(({ spec, boundTo }) => {
      const where = spec.zone === undefined ? "" : ` in ${spec.zone}`;
      return `${spec.instanceType}${spec.spot ? " spot" : ""}${where} for ${boundTo ?? "standby"}`;
    }),
    stop: plan.stop.map(({ name, because }) => `${name} ${because.code}`),
    bound: Object.fromEntries(plan.bindings),
    updates: plan.updates.map(
      ({ name, boundTo, idleSinceMs }) => `${name} ${boundTo ?? (idleSinceMs === NOW ? "idle from now" : "idle")}`,
    ),
    waits: plan.waits.map(({ group, code, demands }) => `${group} ${code} ${demands.join()}`),
    messages: plan.waits.map(({ message }) => message),
    ignored: plan.ignored.map(({ demand, because }) => `${demand}: ${because}`),
  };
}

function see(given: Given) {
  return show(computeScaling(aSnapshot(given)));
}

/** Runs one test for each row: a sentence, the given world, and the expected part of the plan. */
export function checkPlans(rows: readonly Row[]): void {
  it.each(rows)("%s", (_sentence, given, expected) => {
    expect(see(given)).toMatchObject(expected);
  });
}
