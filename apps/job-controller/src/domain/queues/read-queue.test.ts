import { describe, expect, it } from "vitest";
import { readQueue, type QueueRecord } from "./read-queue.ts";

const EMPTY: QueueRecord = {
  ...{ name: "a", parent: "", weightMilli: 1000, quotas: [], strategy: "BestEffortFIFO", stopPolicy: "None" },
  ...{ maxPriority: undefined, namespaces: undefined, problem: "" },
  ...{ preemption: undefined, minRunTimeMs: 0, readyTimeoutMs: 0, pastUseHalfLifeMs: 0, permitsNonPreemptible: false },
};
const NEVER = { reclaim: "Never", fairSharing: "Never", withinQueue: "Never", whileBorrowing: undefined } as const;
const quota = (name: string, amounts: object) => ({ quotas: [{ pool: "gpu", resources: [{ name, ...amounts }] }] });
const recorded = (resource: string, nominal: number, limits: object = {}) => ({
  quotas: [
    { pool: "gpu", resources: [{ resource, nominal, borrowingLimit: undefined, lendingLimit: undefined, ...limits }] },
  ],
});

describe("a readable queue", () => {
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
    ["the largest amount", quota("memory", { nominal: "9007199254740991" }), recorded("memory", 2 ** 53 - 1)],
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
    [
      "what it may preempt",
      { preemption: { reclaim: "Any", withinQueue: "LowerPriority", whileBorrowing: { maxPriority: 5 } } },
      { preemption: { ...NEVER, reclaim: "Any", withinQueue: "LowerPriority", whileBorrowing: { maxPriority: 5 } } },
    ],
    [
      "that it may preempt any lower priority while it borrows",
      { preemption: { whileBorrowing: {} } },
      { preemption: { ...NEVER, whileBorrowing: { maxPriority: undefined } } },
    ],
    ["an empty policy", { preemption: {} }, { preemption: NEVER }],
    ["how long its work runs at least", { minRunTime: "1h30m" }, { minRunTimeMs: 5_400_000 }],
    ["when a gang is to be ready", { readyTimeout: "90s" }, { readyTimeoutMs: 90_000 }],
    ["when half of the past is forgotten", { pastUseHalfLife: "6h" }, { pastUseHalfLifeMs: 21_600_000 }],
    ["that its work need not be preemptible", { permitNonPreemptible: true }, { permitsNonPreemptible: true }],
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

describe("an unreadable queue names field, value and a valid value", () => {
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
    [
      { preemption: { fairSharing: "Always", whileBorrowing: { maxPriority: "5" } } },
      'spec.preemption.fairSharing: must be one of Never, LowerPriority, Any, not "Always"; ' +
        'spec.preemption.whileBorrowing.maxPriority: must be a whole number from -2147483648 to 2147483647, not "5"',
    ],
    [
      { minRunTime: 600, permitNonPreemptible: "yes" },
      "spec.minRunTime: must be a duration with its unit, such as 10m or 1h30m, 366 days at most, not 600; " +
        'spec.permitNonPreemptible: must be true or false, not "yes"',
    ],
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
    [quota("memory", { nominal: "1Ei" }), 'spec.quotas[0].resources[0].nominal: must be less than 8Pi, not "1Ei"'],
    [quota("memory", { nominal: "8Pi" }), 'spec.quotas[0].resources[0].nominal: must be less than 8Pi, not "8Pi"'],
    [
      quota("cpu", { nominal: 1, borrowingLimit: 1e18 }),
      "spec.quotas[0].resources[0].borrowingLimit: must be less than 9007199254740992m, not 1000000000000000000",
    ],
    [
      quota("pods", { nominal: "4".repeat(50) }),
      `spec.quotas[0].resources[0].nominal: must be less than 8Pi, not "${"4".repeat(39)}...`,
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

  it("has all problems together, and keeps readable fields", () => {
    const spec = { parent: "company", weight: -1, quotas: [...quota("cpu", { nominal: 2 }).quotas, { pool: 3 }] };
    const { problem, ...record } = readQueue("a", spec);
    expect(record).toMatchObject({ parent: "company", weightMilli: 1000, ...recorded("cpu", 2000) });
    expect(problem.split("; ")).toEqual([
      expect.stringMatching(/^spec.weight: /),
      expect.stringMatching(/^spec.quotas\[1\].pool: /),
    ]);
  });
});

describe("a queue that exceeds an entry of the log", () => {
  const pools = (count: number, resources: number) =>
    Array.from({ length: count }, (_pool, index) => ({
      pool: `pool-${index}`,
      resources: Array.from({ length: resources }, (_resource, at) => ({ name: `example.com/r-${at}`, nominal: 1 })),
    }));
  const label = "a".repeat(63);
  const resource = `${"d".repeat(253)}/${label}`;

  it("is read up to its limits", () => {
    const longest = {
      parent: label,
      quotas: [{ pool: label, resources: [{ name: resource, nominal: 1 }] }, ...pools(51, 5)],
      namespaceSelector: {
        matchLabels: Object.fromEntries(
          Array.from({ length: 32 }, (_, index) => [`${resource.slice(3)}${index}`, label]),
        ),
        matchExpressions: Array.from({ length: 32 }, () => ({
          key: resource,
          operator: "In",
          values: Array.from({ length: 64 }, () => label),
        })),
      },
    };
    expect(readQueue(label, longest)).toMatchObject({ problem: "", namespaces: longest.namespaceSelector });
    expect(readQueue("a", { quotas: pools(64, 4) })).toMatchObject({ problem: "", quotas: { length: 64 } });
  });

  it.each<[string, object, string]>([
    [
      "a",
      { quotas: pools(65, 1) },
      "spec.quotas: must have 64 pools at most, not 65: divide them among several queues",
    ],
    [
      "a",
      { quotas: pools(52, 5) },
      "spec.quotas: must have 256 resources at most over all pools, not 260: divide them among several queues",
    ],
    [`${label}a`, {}, "metadata.name: must have 63 characters at most, not 64"],
    ["a", { parent: `${label}a` }, "spec.parent: must have 63 characters at most, not 64"],
    [
      "a",
      { quotas: [{ pool: `${label}a`, resources: [] }] },
      "spec.quotas[0].pool: must have 63 characters at most, not 64",
    ],
    [
      "a",
      quota(`${resource}a`, { nominal: 1 }),
      "spec.quotas[0].resources[0].name: must have 317 characters at most, not 318",
    ],
    [
      "a",
      { namespaceSelector: { matchLabels: { [`${resource}a`]: "" } } },
      "spec.namespaceSelector.matchLabels: must have keys of 317 characters at most, not of 318",
    ],
    [
      "a",
      { namespaceSelector: { matchLabels: { team: `${label}a` } } },
      "spec.namespaceSelector.matchLabels.team: must have 63 characters at most, not 64",
    ],
    [
      "a",
      { namespaceSelector: { matchLabels: Object.fromEntries(Array.from({ length: 33 }, (_, index) => [index, ""])) } },
      "spec.namespaceSelector.matchLabels: must have 32 labels at most, not 33",
    ],
    [
      "a",
      { namespaceSelector: { matchExpressions: Array(33).fill({ key: "a", operator: "Exists" }) } },
      "spec.namespaceSelector.matchExpressions: must have 32 conditions at most, not 33",
    ],
    [
      "a",
      { namespaceSelector: { matchExpressions: [{ key: `${resource}a`, operator: "Exists" }] } },
      "spec.namespaceSelector.matchExpressions[0].key: must have 317 characters at most, not 318",
    ],
    [
      "a",
      { namespaceSelector: { matchExpressions: [{ key: "a", operator: "In", values: Array(65).fill("") }] } },
      "spec.namespaceSelector.matchExpressions[0].values: must have 64 values at most, not 65",
    ],
    [
      "a",
      { namespaceSelector: { matchExpressions: [{ key: "a", operator: "In", values: ["", `${label}a`] }] } },
      "spec.namespaceSelector.matchExpressions[0].values[1]: must have 63 characters at most, not 64",
    ],
  ])("%s: names the limit and the number that exceeds it", (name, spec, problem) => {
    expect(readQueue(name, spec).problem).toBe(problem);
  });

  it("has a small record, whatever it states", () => {
    const spec = {
      parent: "p".repeat(10_000),
      weight: "9".repeat(10_000),
      strategy: "S".repeat(10_000),
      quotas: Array.from({ length: 64 }, () => ({
        pool: "g",
        resources: Array.from({ length: 30 }, () => ({ name: "cpu", nominal: "x".repeat(1000) })),
      })),
      namespaceSelector: { matchLabels: { ["k".repeat(10_000)]: 1 } },
    };
    const record = readQueue("a", spec);
    expect(JSON.stringify(record).length).toBeLessThan(10_000);
    expect(record.problem).not.toBe("");
    const wrong = { quotas: pools(20, 1).map((each) => ({ ...each, resources: [{ name: "cpu" }] })) };
    expect(readQueue("a", wrong).problem).toMatch(/^spec.quotas\[0\].*; spec.quotas\[9\][^;]*; and 10 more problems$/);
  });
});
