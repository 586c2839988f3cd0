import { labels } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { component, draft, spec } from "../../test/samples.ts";
import { SESSION_LIMITS } from "@muster/session-limits";
import { validateSession, type SessionDraft } from "./validate-session.ts";

const DEFAULTS = {
  timeoutMs: 900_000,
  queueTimeoutMs: 86_400_000,
  ttlMs: 86_400_000,
  killAfterMs: 5000,
  workerPort: 10_000,
};
const driver = component("driver", "driver");

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
    expect(validateSession("bench", draft(), DEFAULTS, "pool")).toEqual({ ok: true, spec: spec() });
  });

  it("leaves a session without a time limit if that is the default", () => {
    const validated = validateSession("bench", draft(), { ...DEFAULTS, timeoutMs: 0 }, "pool");
    expect(validated).toMatchObject({ ok: true, spec: { timeoutMs: 0 } });
  });

  it.each<[string, string, SessionDraft, string]>([
    ["refuses a name that is no DNS label", "Bench!", draft(), "name"],
    ["refuses an empty name", "", draft(), "name"],
    ["refuses a session without components", "bench", draft({ components: [] }), "components"],
    ["refuses a session without a driver", "bench", draft({ components: [component("a", "server")] }), "components"],
    ["refuses two drivers", "bench", draft({ components: [driver, component("other", "driver")] }), "components"],
    [
      "refuses a component of no kind",
      "bench",
      draft({ components: [driver, { ...component("a", "server"), kind: undefined }] }),
      "components[1].kind",
    ],
    [
      "names the component that has a bad name",
      "bench",
      draft({ components: [driver, component("a", "server"), component("b.c", "client")] }),
      "components[2].name",
    ],
    [
      "refuses two components of one name",
      "bench",
      draft({ components: [driver, component("a", "server"), component("a", "client")] }),
      "components[2].name",
    ],
    [
      "refuses names that make the pod's name too long",
      "b".repeat(40),
      draft({ components: [component("d".repeat(23), "driver")] }),
      "components[0].name",
    ],
    [
      "refuses an empty pool",
      "bench",
      draft({ components: [component("driver", "driver", { pool: "" })] }),
      "components[0].pool",
    ],
    [
      "refuses a pool that is no label value",
      "bench",
      draft({ components: [component("driver", "driver", { pool: "a/b" })] }),
      "components[0].pool",
    ],
    [
      "accepts several pools",
      "bench",
      draft({ components: [component("driver", "driver", { pool: "a", otherPools: ["b", "c"] })] }),
      "accepted",
    ],
    [
      "refuses a pool that is named twice",
      "bench",
      draft({ components: [component("driver", "driver", { pool: "a", otherPools: ["b", "a"] })] }),
      "components[0].other_pools[1]",
    ],
    [
      "refuses more pools than a need accepts",
      "bench",
      draft({ components: [component("driver", "driver", { pool: "a", otherPools: [..."bcdefghi"] })] }),
      "components[0].other_pools[7]",
    ],
    [
      "refuses too many combinations of pools",
      "bench",
      draft({
        components: [
          component("driver", "driver", { pool: "a", otherPools: ["b", "c"] }),
          component("x", "client", { pool: "b", otherPools: ["c", "a"] }),
          component("y", "client", { pool: "c", otherPools: ["a", "b"] }),
        ],
      }),
      "components",
    ],
    [
      "refuses a component with neither image nor command",
      "bench",
      draft({ components: [component("driver", "driver", { image: "" })] }),
      "components[0].image",
    ],
    [
      "accepts a command without an image",
      "bench",
      draft({ components: [component("driver", "driver", { image: "", command: ["true"] })] }),
      "accepted",
    ],
    [
      "refuses a bad name of an environment variable",
      "bench",
      draft({ components: [component("driver", "driver", { env: [{ name: "A-B", value: "" }] })] }),
      "components[0].env[0].name",
    ],
    [
      "refuses a variable that the controller sets itself",
      "bench",
      draft({ components: [component("driver", "driver", { env: [{ name: "QPS_WORKERS", value: "" }] })] }),
      "components[0].env[0].name",
    ],
    [
      "refuses a variable that is given twice",
      "bench",
      draft({
        components: [
          component("driver", "driver", {
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
      draft({ components: [component("driver", "driver", { readyPort: 65_536 })] }),
      "components[0].ready_port",
    ],
    ["refuses a scenario that is not JSON", "bench", draft({ scenarioJson: "{" }), "scenario_json"],
    ["accepts an empty scenario", "bench", draft({ scenarioJson: "" }), "accepted"],
    [
      "refuses a scenario over its limit",
      "bench",
      draft({ scenarioJson: `"${"x".repeat(SESSION_LIMITS.scenarioBytes)}"` }),
      "scenario_json",
    ],
    [
      "refuses more text than a record holds",
      "bench",
      draft({ components: [component("driver", "driver", { args: ["x".repeat(SESSION_LIMITS.textBytes)] })] }),
      "components[0].args[0]",
    ],
    [
      "refuses an env value over the size limit, naming it",
      "bench",
      draft({
        components: [
          driver,
          component("c", "client", {
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
      draft({ components: [component("driver", "driver", { args: Array.from({ length: 20_000 }, () => "") })] }),
      "components",
    ],
    [
      "refuses more components than the limit",
      "bench",
      draft({ components: [driver, ...Array.from({ length: 200 }, (_, index) => component(`c-${index}`, "client"))] }),
      "components",
    ],
    ["refuses a time limit of a millisecond", "bench", draft({ timeoutMs: 1 }), "timeout_ms"],
    ["refuses a negative time in the queue", "bench", draft({ queueTimeoutMs: -1 }), "queue_timeout_ms"],
    ["refuses to be kept for a century", "bench", draft({ ttlMs: 3e12 }), "ttl_ms"],
    ["accepts the label of a topology", "bench", draft({ topology: "topology.kubernetes.io/zone" }), "accepted"],
    ["refuses a topology with a value", "bench", draft({ topology: "rack=a" }), "topology"],
    ["refuses a topology that only ends a prefix", "bench", draft({ topology: "example.com/" }), "topology"],
    ["refuses a worker port over 65535", "bench", draft({ workerPort: 70_000 }), "worker_port"],
    [
      "refuses a NUL in an argument",
      "bench",
      draft({ components: [component("driver", "driver", { args: ["a\0b"] })] }),
      "components[0]",
    ],
    ...TEMPLATES.map(([title, templateJson, field]): [string, string, SessionDraft, string] => [
      title,
      "bench",
      draft({ components: [component("driver", "driver", { env: [{ name: "A", value: "" }], templateJson })] }),
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
    const components = [component("driver", "driver", { templateJson, ...more })];
    expect(fieldOf("bench", draft({ components }))).toBe(field);
  });

  it("refuses a shared component without a template", () => {
    const components = [component("driver", "driver", { shared: true })];
    expect(fieldOf("bench", draft({ components }))).toBe("components[0].shared");
  });

  it("refuses every label that Muster sets on a pod", () => {
    const { managedBy, installation, ownerKind, owner, ownerUid, component: of, componentKind, exclusive } = labels;
    for (const label of [managedBy, installation, ownerKind, owner, ownerUid, of, componentKind, exclusive]) {
      const templateJson = JSON.stringify({ metadata: { labels: { [label]: "a" } }, spec: {} });
      const wanted = draft({ components: [component("driver", "driver", { templateJson })] });
      expect(fieldOf("bench", wanted)).toBe(`${TEMPLATE}.metadata.labels.${label}`);
    }
  });
});

it.each([
  ["none", [component("a", "server")]],
  ["driver, other", [driver, component("other", "driver")]],
])("states the drivers that it found unless there is exactly one: %s", (found, components) => {
  expect(validateSession("bench", draft({ components }), DEFAULTS, "pool")).toMatchObject({
    ok: false,
    fault: { reason: `a session needs exactly one driver, found ${found}` },
  });
});

it("states what a topology must be, as for jobs", () => {
  expect(validateSession("bench", draft({ topology: "rack a" }), DEFAULTS, "pool")).toMatchObject({
    ok: false,
    fault: { reason: 'must be the label of nodes, such as topology.kubernetes.io/zone, not "rack a"' },
  });
});
