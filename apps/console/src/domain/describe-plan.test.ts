import { expect, it } from "vitest";
import { describePlan } from "./describe-plan.ts";

type Plan = Parameters<typeof describePlan>[0];

const sessionOf = (fields: object): Plan => ({ session: fields as NonNullable<Plan["session"]> });

it.each<[title: string, plan: Plan, lines: readonly string[], isRefused: boolean]>([
  ["a session whose machines are free", sessionOf({ name: "a" }), ["its machines are free now"], false],
  [
    "a session that would wait",
    sessionOf({ waitingCode: "POOL_AVAILABILITY", waitingBecause: "pool gpu has 1 machine free" }),
    ["it would wait: POOL_AVAILABILITY: pool gpu has 1 machine free"],
    false,
  ],
  ["a job", { warnings: ["spec.x is ignored"] }, ["it can be submitted now", "note: spec.x is ignored"], false],
  ["a refused job", { problems: [{ field: "spec", reason: "is wrong" }] }, ["spec: is wrong"], true],
  ["a replica set", { outcome: "CREATED" }, ["it would be CREATED"], false],
])("describes the plan of %s", (_title, plan, lines, isRefused) => {
  expect(describePlan(plan)).toEqual({ lines, isRefused });
});
