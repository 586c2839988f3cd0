import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  checkDnsLabel,
  checkDnsSubdomain,
  checkEnvName,
  checkLabelKey,
  checkLabelValue,
  checkTopology,
} from "./check-names.ts";

const long = (length: number) => "a".repeat(length);

describe.each([
  {
    check: checkDnsLabel,
    good: ["a", "a-b", "9lives", long(63)],
    bad: ["", "A", "-a", "a-", "a.b", "a_b", "ä", "a ", "*", long(64)],
  },
  {
    check: checkDnsSubdomain,
    good: ["a", "a.b-c.d", "ip-10-0-0-1.internal"],
    bad: ["", "a..b", ".a", "a.", "A.b", long(254)],
  },
  { check: checkLabelValue, good: ["", "a", "A.b_c-9", long(63)], bad: ["-a", "a-", "a b", "a/b", "ä", long(64)] },
  {
    check: checkLabelKey,
    good: ["pool", "muster.dev/owner", "a/B_c.d"],
    bad: ["", "a/", "/a", "A/b", "a/b/c", `a/${long(64)}`],
  },
  {
    check: checkTopology,
    good: ["rack", "topology.kubernetes.io/zone"],
    bad: ["", "rack=a", "a/", "/a", "a b", long(64)],
  },
  { check: checkEnvName, good: ["A", "_a1", "SCENARIO_JSON"], bad: ["", "1A", "A-B", "A B", "Ä", "A="] },
])("$check.name", ({ check, good, bad }) => {
  it.each(good)('takes "%s"', (value) => {
    expect(check("field", value)).toBeUndefined();
  });

  it.each(bad)('refuses "%s", naming the field and the value', (value) => {
    const fault = check("spec.field", value);
    expect(fault).toMatchObject({ code: "invalid_request", field: "spec.field" });
    expect(fault?.code === "invalid_request" && fault.reason).toContain(value.slice(0, 20));
  });
});

it("a name is accepted exactly when the pattern of Kubernetes matches it", () => {
  // The pattern and length of IsDNS1123Label.
  const kubernetes = (value: string) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(value) && value.length <= 63;
  const character = fc.constantFrom(...Array.from("abz059-._A*> "));
  fc.assert(
    fc.property(fc.string({ unit: character, maxLength: 70 }), (value) => {
      expect(checkDnsLabel("name", value) === undefined).toBe(kubernetes(value));
    }),
  );
});

it("applies a given shorter limit", () => {
  expect(checkDnsLabel("name", "abcdef", 5)).toMatchObject({ reason: expect.stringContaining("5 at most") as string });
});
