import { describe, expect, it } from "vitest";
import { readQueue, type QueueRecord } from "./read-queue.ts";

const EMPTY: QueueRecord = {
  ...{ name: "a", parent: "", weightMilli: 1000, quotas: [], strategy: "BestEffortFIFO", stopPolicy: "None" },
  ...{ maxPriority: undefined, namespaces: undefined, problem: "" },
};
const quota = (name: string, amounts: object) => ({ quotas: [{ pool: "gpu", resources: [{ name, ...amounts }] }] });
const recorded = (resource: string, nominal: number, limits: object = {}) => ({
  quotas: [
    { pool: "gpu", resources: [{ resource, nominal, borrowingLimit: undefined, lendingLimit: undefined, ...limits }] },
  ],
});

describe("a queue that can be read", () => {
  const cases: readonly [title: string, spec: unknown, expected: Partial<QueueRecord>][] = [
    ["an empty spec", {}, {}],
    ["no spec", undefined, {}],
    ["a parent", { parent: "company" }, { parent: "company" }],
    ["a weight of thousandths", { weight: 0.057 }, { weightMilli: 57 }],
    ["weight 0", { weight: 0 }, { weightMilli: 0 }],
    ["the largest weight", { weight: 1_000_000 }, { weightMilli: 1_000_000_000 }],
    ["cpu in thousandths of a core", quota("cpu", { nominal: "1500m" }), recorded("cpu", 1500)],
    ["cores as a number", quota("cpu", { nominal: 8 }), recorded("cpu", 8000)],
    ["memory in bytes", quota("memory", { nominal: "1.5Gi" }), recorded("memory", 1.5 * 2 ** 30)],
    ["an exponent", quota("memory", { nominal: "1e3" }), recorded("memory", 1000)],
    [
      "limits, also 0",
      quota("nvidia.com/gpu", { nominal: 8, borrowingLimit: "4", lendingLimit: 0 }),
      recorded("nvidia.com/gpu", 8, { borrowingLimit: 4, lendingLimit: 0 }),
    ],
    ["null for an absent limit", quota("cpu", { nominal: 1, lendingLimit: null }), recorded("cpu", 1000)],
    [
      "how it orders and stops",
      { strategy: "StrictFIFO", stopPolicy: "HoldAndDrain" },
      { strategy: "StrictFIFO", stopPolicy: "HoldAndDrain" },
    ],
    ["a maximum below 0", { maxPriority: -3 }, { maxPriority: -3 }],
    [
      "a selector of all namespaces",
      { namespaceSelector: {} },
      { namespaces: { matchLabels: {}, matchExpressions: [] } },
    ],
    [
      "a selector by labels",
      {
        namespaceSelector: {
          matchLabels: { team: "a" },
          matchExpressions: [
            { key: "b", operator: "NotIn", values: ["c"] },
            { key: "d", operator: "Exists" },
          ],
        },
      },
      {
        namespaces: {
          matchLabels: { team: "a" },
          matchExpressions: [
            { key: "b", operator: "NotIn", values: ["c"] },
            { key: "d", operator: "Exists", values: [] },
          ],
        },
      },
    ],
  ];
  it.each(cases)("%s", (_title, spec, expected) => {
    expect(readQueue("a", spec)).toEqual({ ...EMPTY, ...expected });
  });
});

describe("a queue that cannot be read names field, value and what would be right", () => {
  const cases: readonly [spec: unknown, problem: string][] = [
    ["text", 'spec: must be an object, not "text"'],
    [{ parent: 7 }, "spec.parent: must be a string, not 7"],
    [
      { weight: -1 },
      "spec.weight: must be a number from 0 to 1000000 with at most three decimal places, such as 0.5, not -1",
    ],
    [
      { weight: 0.0005 },
      "spec.weight: must be a number from 0 to 1000000 with at most three decimal places, such as 0.5, not 0.0005",
    ],
    [
      { weight: "1" },
      'spec.weight: must be a number from 0 to 1000000 with at most three decimal places, such as 0.5, not "1"',
    ],
    [{ strategy: "LIFO" }, 'spec.strategy: must be one of BestEffortFIFO, StrictFIFO, not "LIFO"'],
    [{ stopPolicy: "Stop" }, 'spec.stopPolicy: must be one of None, Hold, HoldAndDrain, not "Stop"'],
    [{ maxPriority: 0.5 }, "spec.maxPriority: must be a whole number from -2147483648 to 2147483647, not 0.5"],
    [{ quotas: [{ resources: [] }] }, "spec.quotas[0].pool: is missing"],
    [
      { quotas: [{ pool: "g" }, { pool: "g" }] },
      'spec.quotas[1].pool: "g" is named twice: name it once, with the whole amount',
    ],
    [quota("", { nominal: 1 }), "spec.quotas[0].resources[0].name: is missing"],
    [quota("cpu", {}), "spec.quotas[0].resources[0].nominal: is missing: 0 where the queue owns nothing"],
    [
      quota("cpu", { nominal: "4 cores" }),
      'spec.quotas[0].resources[0].nominal: must be a quantity from 0 to 8Pi, such as 500m or 2Gi, not "4 cores"',
    ],
    [
      quota("memory", { nominal: "1Ei" }),
      'spec.quotas[0].resources[0].nominal: must be a quantity from 0 to 8Pi, such as 500m or 2Gi, not "1Ei"',
    ],
    [
      quota("cpu", { nominal: "100u" }),
      'spec.quotas[0].resources[0].nominal: must be whole thousandths of a core, such as 500m, not "100u"',
    ],
    [
      quota("nvidia.com/gpu", { nominal: "0.5" }),
      'spec.quotas[0].resources[0].nominal: must be a whole number, such as 8 or 2Gi, not "0.5"',
    ],
    [
      quota("cpu", { nominal: 1, borrowingLimit: -1 }),
      "spec.quotas[0].resources[0].borrowingLimit: must be a quantity from 0 to 8Pi, such as 500m or 2Gi, not -1",
    ],
    [
      quota("cpu", { nominal: 1, lendingLimit: {} }),
      "spec.quotas[0].resources[0].lendingLimit: must be a quantity from 0 to 8Pi, such as 500m or 2Gi, not {}",
    ],
    [{ namespaceSelector: [] }, "spec.namespaceSelector: must be an object, not a list"],
    [
      { namespaceSelector: { matchLabels: { team: 1 } } },
      "spec.namespaceSelector.matchLabels.team: must be a string, not 1",
    ],
    [
      { namespaceSelector: { matchExpressions: [{ key: "a", operator: "Is" }] } },
      'spec.namespaceSelector.matchExpressions[0].operator: must be one of In, NotIn, Exists, DoesNotExist, not "Is"',
    ],
    [
      { namespaceSelector: { matchExpressions: [{ operator: "In", values: ["a"] }] } },
      "spec.namespaceSelector.matchExpressions[0].key: is missing",
    ],
    [
      { namespaceSelector: { matchExpressions: [{ key: "a", operator: "In" }] } },
      "spec.namespaceSelector.matchExpressions[0].values: is empty: In needs a value",
    ],
    [
      { namespaceSelector: { matchExpressions: [{ key: "a", operator: "Exists", values: ["b"] }] } },
      "spec.namespaceSelector.matchExpressions[0].values: must be empty with Exists",
    ],
  ];
  it.each(cases)("%j: %s", (spec, problem) => {
    expect(readQueue("a", spec).problem).toBe(problem);
  });

  it("has all problems together, and keeps what can be read", () => {
    const spec = { parent: "company", weight: -1, quotas: [...quota("cpu", { nominal: 2 }).quotas, { pool: 3 }] };
    const { problem, ...record } = readQueue("a", spec);
    expect(record).toMatchObject({ parent: "company", weightMilli: 1000, ...recorded("cpu", 2000) });
    expect(problem.split("; ")).toEqual([
      expect.stringMatching(/^spec.weight: /),
      expect.stringMatching(/^spec.quotas\[1\].pool: /),
    ]);
  });
});
