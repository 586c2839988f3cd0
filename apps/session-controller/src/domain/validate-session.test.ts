import { labels } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { makeComponent, makeDraft, makeSpec } from "../../test/samples.ts";
import { SESSION_LIMITS } from "@muster/session-limits";
import { validateSession, type SessionDraft } from "./validate-session.ts";

const DEFAULTS = {
  timeoutMs: 900_000,
  queueTimeoutMs: 86_400_000,
  ttlMs: 86_400_000,
  killAfterMs: 5000,
  workerPort: 10_000,
};
const driver = makeComponent("driver", "driver");

const TEMPLATE = "components[0].template_json";
const TEMPLATES = [
  ["accepts a template", '{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":1}}}]}}', "accepted"],
  ["refuses a template that is not JSON", "{", TEMPLATE],
  ["refuses a template that is no mapping", "[]", TEMPLATE],
  ["refuses a template with an unknown field", '{"spec":{"volume":[]}}', `${TEMPLATE}.spec.volume`],
  ["refuses a template with a field of Muster", '{"spec":{"nodeName":"n"}}', `${TEMPLATE}.spec.nodeName`],
  [
    "refuses a variable of the component in its template",
    '{"spec":{"containers":[{"name":"main","env":[{"name":"A"}]}]}}',
    `${TEMPLATE}.spec.containers[0].env[0].name`,
  ],
  ["refuses a template over the size limit", " ".repeat(SESSION_LIMITS.textBytes + 1), TEMPLATE],
] as const;

function fieldOf(name: string, wanted: SessionDraft): string {
  const validated = validateSession(name, wanted, DEFAULTS, "pool");
  if (validated.ok) return "accepted";
  return validated.fault.code === "invalid_request" ? validated.fault.field : validated.fault.code;
}

describe("validateSession", () => {
  it("fills in every default, so that the record has all values", () => {
    expect(validateSession("bench", makeDraft(), DEFAULTS, "pool")).toEqual({ ok: true, spec: makeSpec() });
  });

  it("leaves a session without a time limit if that is the default", () => {
    const validated = validateSession("bench", makeDraft(), { ...DEFAULTS, timeoutMs: 0 }, "pool");
    expect(validated).toMatchObject({ ok: true, spec: { timeoutMs: 0 } });
  });

  it.each<[string, string, SessionDraft, string]>([
    ["refuses a name that is no DNS label", "Bench!", makeDraft(), "name"],
    ["refuses an empty name", "", makeDraft(), "name"],
    ["refuses a session without components", "bench", makeDraft({ components: [] }), "components"],
    [
      "refuses a session without a driver",
      "bench",
      makeDraft({ components: [makeComponent("a", "server")] }),
      "components",
    ],
    [
      "refuses two drivers",
      "bench",
      makeDraft({ components: [driver, makeComponent("other", "driver")] }),
      "components",
    ],
    [
      "refuses a component of no kind",
      "bench",
      makeDraft({ components: [driver, { ...makeComponent("a", "server"), kind: undefined }] }),
      "components[1].kind",
    ],
    [
      "names the component that has a bad name",
      "bench",
      makeDraft({ components: [driver, makeComponent("a", "server"), makeComponent("b.c", "client")] }),
      "components[2].name",
    ],
    [
      "refuses two components of one name",
      "bench",
      makeDraft({ components: [driver, makeComponent("a", "server"), makeComponent("a", "client")] }),
      "components[2].name",
    ],
    [
      "refuses names that make the pod's name too long",
      "b".repeat(40),
      makeDraft({ components: [makeComponent("d".repeat(23), "driver")] }),
      "components[0].name",
    ],
    [
      "refuses an empty pool",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { pool: "" })] }),
      "components[0].pool",
    ],
    [
      "refuses a pool that is no label value",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { pool: "a/b" })] }),
      "components[0].pool",
    ],
    [
      "accepts several pools",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { pool: "a", otherPools: ["b", "c"] })] }),
      "accepted",
    ],
    [
      "refuses a pool that is named twice",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { pool: "a", otherPools: ["b", "a"] })] }),
      "components[0].other_pools[1]",
    ],
    [
      "refuses more pools than a need accepts",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { pool: "a", otherPools: [..."bcdefghi"] })] }),
      "components[0].other_pools[7]",
    ],
    [
      "refuses too many combinations of pools",
      "bench",
      makeDraft({
        components: [
          makeComponent("driver", "driver", { pool: "a", otherPools: ["b", "c"] }),
          makeComponent("x", "client", { pool: "b", otherPools: ["c", "a"] }),
          makeComponent("y", "client", { pool: "c", otherPools: ["a", "b"] }),
        ],
      }),
      "components",
    ],
    [
      "refuses a component with neither image nor command",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { image: "" })] }),
      "components[0].image",
    ],
    [
      "accepts a command without an image",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { image: "", command: ["true"] })] }),
      "accepted",
    ],
    [
      "refuses a bad name of an environment variable",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { env: [{ name: "A-B", value: "" }] })] }),
      "components[0].env[0].name",
    ],
    [
      "refuses a variable that the controller sets itself",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { env: [{ name: "QPS_WORKERS", value: "" }] })] }),
      "components[0].env[0].name",
    ],
    [
      "refuses a variable that is given twice",
      "bench",
      makeDraft({
        components: [
          makeComponent("driver", "driver", {
            env: [
              { name: "A", value: "1" },
              { name: "A", value: "2" },
            ],
          }),
        ],
      }),
      "components[0].env[1].name",
    ],
    [
      "refuses a port over 65535",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { readyPort: 65_536 })] }),
      "components[0].ready_port",
    ],
    ["refuses a scenario that is not JSON", "bench", makeDraft({ scenarioJson: "{" }), "scenario_json"],
    ["accepts an empty scenario", "bench", makeDraft({ scenarioJson: "" }), "accepted"],
    [
      "refuses a scenario over its limit",
      "bench",
      makeDraft({ scenarioJson: `"${"x".repeat(SESSION_LIMITS.scenarioBytes)}"` }),
      "scenario_json",
    ],
    [
      "refuses more text than a record holds",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { args: ["x".repeat(SESSION_LIMITS.textBytes)] })] }),
      "components[0].args[0]",
    ],
    [
      "refuses an env value over the size limit, naming it",
      "bench",
      makeDraft({
        components: [
          driver,
          makeComponent("c", "client", {
            env: [
              { name: "SMALL", value: "1" },
              { name: "LARGE", value: "\u20ac".repeat(SESSION_LIMITS.textBytes / 3) },
            ],
          }),
        ],
      }),
      "components[1].env[1].value",
    ],
    [
      "refuses very many empty arguments, which have no text and still fill a record",
      "bench",
      makeDraft({
        components: [makeComponent("driver", "driver", { args: Array.from({ length: 20_000 }, () => "") })],
      }),
      "components",
    ],
    [
      "refuses more components than the limit",
      "bench",
      makeDraft({
        components: [driver, ...Array.from({ length: 200 }, (_, index) => makeComponent(`c-${index}`, "client"))],
      }),
      "components",
    ],
    ["refuses a time limit of a millisecond", "bench", makeDraft({ timeoutMs: 1 }), "timeout_ms"],
    ["refuses a negative time in the queue", "bench", makeDraft({ queueTimeoutMs: -1 }), "queue_timeout_ms"],
    ["refuses to be kept for a century", "bench", makeDraft({ ttlMs: 3e12 }), "ttl_ms"],
    ["accepts the label of a topology", "bench", makeDraft({ topology: "topology.kubernetes.io/zone" }), "accepted"],
    ["refuses a topology with a value", "bench", makeDraft({ topology: "rack=a" }), "topology"],
    ["refuses a topology that only ends a prefix", "bench", makeDraft({ topology: "example.com/" }), "topology"],
    ["refuses a worker port over 65535", "bench", makeDraft({ workerPort: 70_000 }), "worker_port"],
    [
      "refuses a NUL in an argument",
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { args: ["a\0b"] })] }),
      "components[0]",
    ],
    ...TEMPLATES.map(([title, templateJson, field]): [string, string, SessionDraft, string] => [
      title,
      "bench",
      makeDraft({ components: [makeComponent("driver", "driver", { env: [{ name: "A", value: "" }], templateJson })] }),
      field,
    ]),
  ])("%s", (_title, name, wanted, field) => {
    expect(fieldOf(name, wanted)).toBe(field);
  });

  const requesting = { containers: [{ name: "main", resources: { requests: { cpu: "500m" } } }] };
  it.each([
    ["a shared component that requests a part", { shared: true }, requesting, "accepted"],
    ["a shared component that requests nothing", { shared: true }, {}, "components[0].shared"],
    [
      "a shared component that requests too much",
      { shared: true },
      { containers: [{ name: "main", resources: { limits: { memory: "1Ei" } } }] },
      `${TEMPLATE}.spec.containers[0].resources.limits.memory`,
    ],
    ["a node selector with the pool", {}, { nodeSelector: { pool: "drivers", disk: "ssd" } }, "accepted"],
    [
      "a node selector with one of several pools",
      { otherPools: ["x"] },
      { nodeSelector: { pool: "drivers" } },
      `${TEMPLATE}.spec.nodeSelector["pool"]`,
    ],
    ["a node selector with another pool", {}, { nodeSelector: { pool: "x" } }, `${TEMPLATE}.spec.nodeSelector["pool"]`],
  ])("decides about %s", (_title, more, templateSpec, field) => {
    const templateJson = JSON.stringify({ spec: templateSpec });
    const components = [makeComponent("driver", "driver", { templateJson, ...more })];
    expect(fieldOf("bench", makeDraft({ components }))).toBe(field);
  });

  it("refuses a shared component without a template", () => {
    const components = [makeComponent("driver", "driver", { shared: true })];
    expect(fieldOf("bench", makeDraft({ components }))).toBe("components[0].shared");
  });

  it("refuses every label that Muster sets on a pod", () => {
    const { managedBy, installation, ownerKind, owner, ownerUid, component: of, componentKind, exclusive } = labels;
    for (const label of [managedBy, installation, ownerKind, owner, ownerUid, of, componentKind, exclusive]) {
      const templateJson = JSON.stringify({ metadata: { labels: { [label]: "a" } }, spec: {} });
      const wanted = makeDraft({ components: [makeComponent("driver", "driver", { templateJson })] });
      expect(fieldOf("bench", wanted)).toBe(`${TEMPLATE}.metadata.labels.${label}`);
    }
  });
});

it.each([
  ["none", [makeComponent("a", "server")]],
  ["driver, other", [driver, makeComponent("other", "driver")]],
])("states the drivers that it found unless there is exactly one: %s", (found, components) => {
  expect(validateSession("bench", makeDraft({ components }), DEFAULTS, "pool")).toMatchObject({
    ok: false,
    fault: { reason: `a session needs exactly one driver, found ${found}` },
  });
});

it("states what a topology must be, as for jobs", () => {
  expect(validateSession("bench", makeDraft({ topology: "rack a" }), DEFAULTS, "pool")).toMatchObject({
    ok: false,
    fault: { reason: 'must be the label of nodes, such as topology.kubernetes.io/zone, not "rack a"' },
  });
});
