import { SESSION_LIMITS } from "@muster/session-limits";
import fc from "fast-check";
import type { SessionDocument } from "../src/domain/session-document.ts";

/** Generates any valid session. */
export function makeAnySession(): fc.Arbitrary<SessionDocument> {
  const label = fc.stringMatching(/^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$/);
  const text: fc.Arbitrary<string> = fc
    .string({ unit: "grapheme", minLength: 1 })
    .filter((value) => value.isWellFormed() && !value.includes("\0"));
  const port = fc.option(fc.integer({ min: 1, max: 65_535 }), { nil: undefined });
  const duration = fc.option(fc.integer({ min: 1000, max: SESSION_LIMITS.killAfterMs.max }), { nil: undefined });
  const component = fc.record({
    name: label,
    kind: fc.constantFrom("server" as const, "client" as const),
    // Four components with two pools each have the maximum of combinations.
    pools: fc.uniqueArray(label, { minLength: 1, maxLength: 2 }),
    image: text.filter((value) => !/\s/.test(value)),
    command: fc.array(text, { maxLength: 3 }),
    args: fc.array(text, { maxLength: 3 }),
    env: fc.uniqueArray(fc.record({ name: fc.stringMatching(/^[A-L_]{1,8}$/), value: text }), {
      selector: ({ name }) => name,
      maxLength: 3,
    }),
    workingDir: fc.option(
      label.map((name) => `/${name}`),
      { nil: undefined },
    ),
    readyPort: port,
    templateJson: fc.option(templates(), { nil: undefined }),
    shared: fc.constantFrom(undefined, true as const),
  });
  const requesting = { spec: { containers: [{ name: "main", resources: { requests: { cpu: "500m" } } }] } };
  const fitting = component.map(({ pools: [pool = "", ...otherPools], ...each }) => {
    const accepting = { ...each, pool, otherPools };
    return each.shared ? { ...accepting, templateJson: JSON.stringify(requesting) } : accepting;
  });
  const components = fc
    .uniqueArray(fitting, { selector: ({ name }) => name, minLength: 1, maxLength: 4 })
    .map(([driver, ...workers]) => [{ ...driver!, kind: "driver" as const }, ...workers]);
  return fc.record({
    name: fc.oneof(
      label.map((exact) => ({ exact })),
      label.map((prefix) => ({ prefix: `${prefix}-` })),
    ),
    spec: fc.record({
      components,
      scenarioJson: fc.option(scenarios(), { nil: undefined }),
      timeoutMs: duration,
      queueTimeoutMs: duration,
      ttlMs: duration,
      killAfterMs: duration,
      priority: fc.option(fc.integer({ min: -1_000_000, max: 1_000_000 }), { nil: undefined }),
      queue: fc.option(label, { nil: undefined }),
      topology: fc.constantFrom(undefined, "rack", "topology.kubernetes.io/zone"),
      workerPort: port,
    }),
  });
}

/** Generates pod templates; the format of each field has its own test. */
function templates(): fc.Arbitrary<string> {
  const name = fc.stringMatching(/^[a-z]{1,8}$/);
  const amounts = fc.dictionary(name, fc.oneof(fc.nat(), fc.constantFrom("500m", "4Gi", "0.5")), { maxKeys: 2 });
  const main = fc.record(
    {
      name: fc.constant("main"),
      resources: fc.record({ requests: amounts, limits: amounts }, { requiredKeys: [] }),
      envFrom: fc.array(fc.record({ secretRef: fc.record({ name }) }), { maxLength: 2 }),
    },
    { requiredKeys: ["name"] },
  );
  const volume = fc.record({ name, secret: fc.record({ secretName: name }) });
  const spec = fc.record(
    {
      containers: fc.array(main, { maxLength: 1 }),
      volumes: fc.uniqueArray(volume, { selector: (each) => each.name, maxLength: 2 }),
    },
    { requiredKeys: [] },
  );
  return fc.record({ spec }).map((template) => JSON.stringify(template));
}

/** Generates JSON whose numbers survive parsing, as those of a document do. */
function scenarios(): fc.Arbitrary<string> {
  const exact = (_key: string, value: unknown): unknown => {
    if (
      typeof value === "number" &&
      (Object.is(value, -0) || (Number.isInteger(value) && !Number.isSafeInteger(value)))
    )
      return 0;
    return value;
  };
  return fc
    .json({ stringUnit: "grapheme" })
    .map((json) => JSON.stringify(JSON.parse(json, exact)))
    .filter((json) => json !== "null");
}
