import { findFault } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { readPoolsFile } from "./read-pools-file.ts";

const kinds = {
  local: { settings: z.strictObject({ kind: z.literal("local"), url: z.url() }) },
  karpenter: { settings: z.strictObject({ kind: z.literal("karpenter"), nodeClass: z.string().default("default") }) },
};
const sources = { kinds, readText: () => "", poolLabel: "pool" };

const providers = "providers: { here: { kind: local, url: 'http://127.0.0.1:1' } }\n";

function problemOf(text: string): string {
  try {
    readPoolsFile(text, sources);
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code === "invalid_request") return fault.reason;
    throw error;
  }
  throw new Error("it was taken");
}

const pool = (fields: string): string => `${providers}pools: [{ name: a, provider: here, max: 4, ${fields} }]`;
const TYPES = "instanceTypes: [{ name: small, cpu: 2, memory: 4Gi }]";

describe("the file of pools", () => {
  it("has defaults for omitted fields", () => {
    expect(readPoolsFile(pool(TYPES), sources)).toEqual({
      providers: [{ name: "here", kind: "local", settings: { kind: "local", url: "http://127.0.0.1:1" } }],
      pools: [
        {
          name: "a",
          provider: "here",
          max: 4,
          instanceTypes: [{ name: "small", cpuMilli: 2000, memoryBytes: 4 * 2 ** 30, gpus: 0 }],
          spot: "Never",
          standby: [],
          idleMs: 300_000,
          reuse: true,
          bootTimeoutMs: 300_000,
          healthyTimeoutMs: 90_000,
          drainTimeoutMs: 120_000,
          zones: undefined,
          volumeGib: undefined,
          privateIpOnly: false,
          bootImage: {},
          labels: {},
          taints: [],
        },
      ],
    });
  });

  it("reads every field", () => {
    const text = `
providers:
  here: { kind: local, url: "http://127.0.0.1:1" }
  cluster: { kind: karpenter }
pools:
  - name: gpu
    provider: cluster
    max: 20
    instanceTypes:
      - { name: large, cpu: 500m, memory: 16Gi, gpus: 8, pricePerHour: 98.32, spotPricePerHour: 0.0000014 }
      - { name: unknown }
    spot: Preferred
    standby: [{ instanceType: large, count: 2, spot: true }]
    idle: 0s
    reuse: false
    bootTimeout: 20m
    healthyTimeout: 1m30s
    drainTimeout: 45s
    zones: [a, b]
    volume: 20Gi
    privateIpOnly: true
    bootImage: { name: "muster-*" }
    labels: { "example.com/team": research }
    taints: [{ key: nvidia.com/gpu, effect: NoSchedule }, { key: team, value: a, effect: NoExecute }]
`;
    const { providers: read, pools } = readPoolsFile(text, sources);
    expect(read.map(({ name, settings }) => [name, settings])).toContainEqual([
      "cluster",
      { kind: "karpenter", nodeClass: "default" },
    ]);
    expect(pools[0]).toMatchObject({
      instanceTypes: [
        {
          ...{ name: "large", cpuMilli: 500, memoryBytes: 16 * 2 ** 30, gpus: 8 },
          ...{ pricePerHourMicros: 98_320_000, spotPricePerHourMicros: 1 },
        },
        { name: "unknown", cpuMilli: undefined, memoryBytes: undefined, gpus: 0 },
      ],
      standby: [{ instanceType: "large", count: 2, spot: true }],
      idleMs: 0,
      reuse: false,
      bootTimeoutMs: 1_200_000,
      healthyTimeoutMs: 90_000,
      volumeGib: 20,
      zones: ["a", "b"],
      taints: [
        { key: "nvidia.com/gpu", value: "", effect: "NoSchedule" },
        { key: "team", value: "a", effect: "NoExecute" },
      ],
    });
  });

  it("may be empty", () => {
    expect(readPoolsFile("{}", sources)).toEqual({ providers: [], pools: [] });
  });

  it.each([
    ["an unknown field", pool(`${TYPES}, colour: red`), 'pools[0].colour is "red": there is no such field'],
    [
      "a negative count",
      pool(`${TYPES}, standby: [{ instanceType: small, count: -1 }]`),
      "pools[0].standby[0].count is -1: at least 0 is needed",
    ],
    [
      "a negative price",
      pool("instanceTypes: [{ name: small, pricePerHour: -1 }]"),
      "pools[0].instanceTypes[0].pricePerHour is -1: at least 0 is needed",
    ],
    [
      "a price with a currency",
      pool('instanceTypes: [{ name: small, spotPricePerHour: "1 EUR" }]'),
      'pools[0].instanceTypes[0].spotPricePerHour is "1 EUR": a number is needed',
    ],
    [
      "a part of a node",
      pool(`${TYPES}, standby: [{ instanceType: small, count: 1.5 }]`),
      "pools[0].standby[0].count is 1.5: a whole number is needed",
    ],
    [
      "an unknown type in standby",
      pool(`${TYPES}, standby: [{ instanceType: huge, count: 1 }]`),
      'pools[0].standby[0].instanceType is "huge": one of small is needed',
    ],
    [
      "standby above max",
      pool(`${TYPES}, standby: [{ instanceType: small, count: 5 }]`),
      "pools[0].standby: 5 nodes are more than max, which is 4",
    ],
    [
      "standby above max in parts",
      pool(`${TYPES}, standby: [{ instanceType: small, count: 3 }, { instanceType: small, count: 3 }]`),
      "6 nodes are more than max",
    ],
    ["no instance type", pool("instanceTypes: []"), "pools[0].instanceTypes is []: must not be empty"],
    [
      "a type that is listed twice",
      pool("instanceTypes: [{ name: s }, { name: s }]"),
      'pools[0].instanceTypes[1].name is "s": stands here twice',
    ],
    [
      "a bare number as a duration",
      pool(`${TYPES}, idle: 300`),
      "pools[0].idle is 300: a duration such as 90s, 5m or 1h30m is needed",
    ],
    [
      "a wrong duration",
      pool(`${TYPES}, idle: 5min`),
      'pools[0].idle is "5min": a duration such as 90s, 5m or 1h30m is needed',
    ],
    [
      "a wrong quantity",
      pool(`${TYPES}, volume: 20GB`),
      'pools[0].volume is "20GB": a quantity above 0 such as 20Gi is needed',
    ],
    [
      "an unknown spot policy",
      pool(`${TYPES}, spot: Maybe`),
      'pools[0].spot is "Maybe": one of Never, Always, Preferred is needed',
    ],
    [
      "an unknown provider",
      `${providers}pools: [{ name: a, provider: there, max: 1, ${TYPES} }]`,
      'pools[0].provider is "there": one of here is needed',
    ],
    [
      "two pools of one name",
      `${providers}pools: [{ name: a, provider: here, max: 1, ${TYPES} }, { name: a, provider: here, max: 1, ${TYPES} }]`,
      'pools[1].name is "a": another pool has this name',
    ],
    [
      "a name that is no DNS label",
      `${providers}pools: [{ name: A.b, provider: here, max: 1, ${TYPES} }]`,
      'pools[0].name is "A.b"',
    ],
    [
      "an unknown kind",
      "providers: { x: { kind: cloud } }",
      'providers.x.kind is "cloud": one of karpenter, local is needed',
    ],
    ["a provider without a kind", "providers: { x: {} }", "providers.x.kind: is missing"],
    [
      "settings that the kind does not know",
      "providers: { x: { kind: karpenter, zone: a } }",
      'providers.x.zone is "a": there is no such field',
    ],
    ["settings that are missing", "providers: { x: { kind: local } }", "providers.x.url: is missing"],
    ["a label that Kubernetes refuses", pool(`${TYPES}, labels: { "a b": c }`), 'pools[0].labels.a b is "c"'],
    [
      "a taint without an effect",
      pool(`${TYPES}, taints: [{ key: gpu }]`),
      "pools[0].taints[0].effect: one of NoSchedule, NoExecute is needed",
    ],
    [
      "a taint that excludes no pod",
      pool(`${TYPES}, taints: [{ key: gpu, effect: PreferNoSchedule }]`),
      'pools[0].taints[0].effect is "PreferNoSchedule": one of NoSchedule, NoExecute is needed',
    ],
    [
      "a taint that Kubernetes refuses",
      pool(`${TYPES}, taints: [{ key: "a b", effect: NoSchedule }]`),
      'pools[0].taints[0].key is "a b"',
    ],
    [
      "the taint of a node that is not ready",
      pool(`${TYPES}, taints: [{ key: node.kubernetes.io/not-ready, effect: NoExecute }]`),
      'pools[0].taints[0].key is "node.kubernetes.io/not-ready": Kubernetes sets this taint while the node is not usable',
    ],
    [
      "the startup taint",
      pool(`${TYPES}, taints: [{ key: muster.dev/unopened, effect: NoSchedule }]`),
      'pools[0].taints[0].key is "muster.dev/unopened": the scaler itself sets and removes this taint',
    ],
    [
      "a taint twice",
      pool(`${TYPES}, taints: [{ key: a, effect: NoSchedule }, { key: a, value: b, effect: NoSchedule }]`),
      'pools[0].taints[1].key is "a": is listed twice with the effect NoSchedule',
    ],
    ["text that is no YAML", "pools: [", "at line 1"],
    ["a key twice", "pools: []\npools: []", "Map keys must be unique"],
    ["a list instead of a map", "[]", "the file is []: a map of fields is needed"],
  ])("is refused for %s", (_what, text, problem) => {
    expect(problemOf(text)).toContain(problem);
  });

  it("is refused with every problem in one message", () => {
    const problem = problemOf("providers: { x: { kind: cloud } }\npools: [{ name: A, max: -1 }]\nmore: 1");
    for (const part of [
      "providers.x.kind",
      "pools[0].name",
      "pools[0].max",
      "pools[0].provider: is missing",
      "more is 1",
    ])
      expect(problem).toContain(part);
  });
});
