import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildBudgetStatus, decideEviction, isSelectingPod } from "./disruption.ts";
import { type JsonObject, findNumber, setAt } from "./json.ts";

const TIME = "2026-01-01T00:00:00Z";
const pod = (labels: JsonObject, ready: boolean, phase = "Running"): JsonObject => ({
  metadata: { name: "pod", labels },
  status: { phase, conditions: [{ type: "Ready", status: ready ? "True" : "False" }] },
});
const budget = (spec: JsonObject, status: JsonObject = {}): JsonObject => ({
  metadata: { name: "budget", generation: 3 },
  spec: { selector: { matchLabels: { app: "a" } }, ...spec },
  status,
});

describe("a budget's status", () => {
  it("keeps the time of its condition until the condition changes", () => {
    const first = buildBudgetStatus(budget({ minAvailable: 1 }), [], TIME);
    const later = buildBudgetStatus(budget({ minAvailable: 1 }, first), [pod({ app: "a" }, true)], "later");
    expect(later["conditions"]).toMatchObject([{ status: "False", lastTransitionTime: TIME }]);
    const two = [pod({ app: "a" }, true), pod({ app: "a" }, true)];
    expect(buildBudgetStatus(budget({ minAvailable: 1 }, later), two, "last")).toMatchObject({
      disruptionsAllowed: 1,
      conditions: [{ status: "True", reason: "SufficientPods", lastTransitionTime: "last" }],
    });
  });

  it("never lets the healthy pods fall below the desired number, one eviction after another", () => {
    fc.assert(
      fc.property(fc.nat(6), fc.array(fc.boolean(), { maxLength: 8 }), (minAvailable, readiness) => {
        let pods = readiness.map((ready) => pod({ app: "a" }, ready));
        const healthyOf = (): number => pods.filter((one) => JSON.stringify(one).includes('"True"')).length;
        const before = healthyOf();
        for (const victim of [...pods]) {
          const wanted = budget({ minAvailable });
          const now = setAt(wanted, ["status"], buildBudgetStatus(wanted, pods, TIME));
          if (decideEviction(victim, [now]).kind === "evict") pods = pods.filter((one) => one !== victim);
          expect(healthyOf()).toBeGreaterThanOrEqual(Math.min(before, minAvailable));
          expect(findNumber(now, "status", "disruptionsAllowed")).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });
});

it.each<[JsonObject | undefined, JsonObject, boolean]>([
  [undefined, { app: "a" }, false],
  [{}, {}, true],
  [{ matchLabels: { app: "a", tier: "1" } }, { app: "a" }, false],
  [{ matchExpressions: [{ key: "app", operator: "In", values: ["a", "b"] }] }, { app: "b" }, true],
  [{ matchExpressions: [{ key: "app", operator: "NotIn", values: ["a"] }] }, {}, true],
  [{ matchExpressions: [{ key: "app", operator: "Exists" }] }, {}, false],
  [{ matchExpressions: [{ key: "app", operator: "DoesNotExist" }] }, {}, true],
])("the selector %j selects the labels %j: %s", (selector, labels, expected) => {
  const spec = selector === undefined ? {} : { selector };
  expect(isSelectingPod({ metadata: { name: "b" }, spec }, pod(labels, true))).toBe(expected);
});
