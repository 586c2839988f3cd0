import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type CallFacts,
  decideAnswer,
  decideLaunch,
  type MachineRule,
  type MachineRuleState,
} from "./decide-launch.ts";

const ZONES = ["a", "b"];
const FACTS: CallFacts = {
  call: "create",
  owner: "scaler",
  nodeName: "n-1",
  instanceType: "small",
  spot: true,
  zone: undefined,
};

function fresh(...rules: readonly MachineRule[]): MachineRuleState[] {
  return rules.map((rule) => ({ rule, matched: 0, injected: 0 }));
}

function launch(rules: readonly MachineRule[], facts: Partial<CallFacts> = {}, zones = ZONES) {
  return decideLaunch(fresh(...rules), { ...FACTS, ...facts }, zones, 1).verdict;
}

describe("decideLaunch", () => {
  it("takes the best zone and has no fault without rules", () => {
    expect(launch([])).toMatchObject({ kind: "launch", zone: "a", bootMs: undefined, faults: { ordersIgnored: 0 } });
  });

  it.each<[string, MachineRule["match"], Partial<CallFacts>, string[], object]>([
    ["passes over a zone that is short", { zones: ["a"] }, {}, ZONES, { kind: "launch", zone: "b" }],
    ["has none where the zone that was asked for is short", { zones: ["a"] }, { zone: "a" }, ["a"], { zone: "a" }],
    ["has none when all zones are short", { zones: ["a", "b"] }, {}, ZONES, { kind: "no-capacity", zone: undefined }],
    ["is short everywhere without zones", {}, {}, ZONES, { kind: "no-capacity" }],
    ["is short of spot alone", { spot: true }, { spot: false }, ZONES, { kind: "launch" }],
    ["is short of one type alone", { instanceTypes: ["large"] }, {}, ZONES, { kind: "launch" }],
  ])("%s", (_title, match, facts, zones, verdict) => {
    expect(launch([{ id: "r", match, fault: { do: "no-capacity" } }], facts, zones)).toMatchObject(verdict);
  });

  it("counts one lack of capacity once, however many zones it takes", () => {
    const rules = fresh({ id: "r", match: {}, fault: { do: "no-capacity" }, times: 1 });
    const first = decideLaunch(rules, FACTS, ZONES, 1);
    const second = decideLaunch(first.rules, FACTS, ZONES, 1);
    expect([first.verdict.kind, second.verdict.kind]).toEqual(["no-capacity", "launch"]);
  });

  it("applies rules of a zone to the chosen zone", () => {
    const rule: MachineRule = { id: "r", match: { zones: ["b"] }, fault: { do: "twin" } };
    const short: MachineRule = { id: "s", match: { zones: ["a"] }, fault: { do: "no-capacity" } };
    expect(launch([rule])).toMatchObject({ zone: "a", faults: { isTwin: false } });
    expect(launch([rule, short])).toMatchObject({ zone: "b", faults: { isTwin: true } });
  });

  it("has the same draws for the same seed, whatever other rules exist", () => {
    const rule: MachineRule = { id: "r", match: {}, fault: { do: "unsupported" }, share: 0.5 };
    const other: MachineRule = { id: "other", match: {}, fault: { do: "twin" }, share: 0.3 };
    const run = (seed: number, rules: readonly MachineRule[]): string[] => {
      let states: readonly MachineRuleState[] = fresh(...rules);
      return Array.from({ length: 20 }, () => {
        const decided = decideLaunch(states, FACTS, ZONES, seed);
        states = decided.rules;
        return decided.verdict.kind;
      });
    };
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        expect(run(seed, [rule])).toEqual(run(seed, [other, rule]));
      }),
    );
  });
});

describe("decideAnswer", () => {
  it("adds delays up, and applies only the first other fault", () => {
    const rules: MachineRule[] = [
      { id: "1", match: {}, fault: { do: "delay", ms: 5 } },
      { id: "2", match: { calls: ["create"] }, fault: { do: "delay", ms: 7 } },
      { id: "3", match: { calls: ["list"] }, fault: { do: "drop" } },
      { id: "4", match: {}, fault: { do: "answer", code: 429 } },
      { id: "5", match: {}, fault: { do: "drop" } },
    ];
    const { verdict, rules: after } = decideAnswer(fresh(...rules), FACTS, 1);
    expect(verdict).toEqual({ delayMs: 12, fault: { do: "answer", code: 429 } });
    expect(after.map(({ injected }) => injected)).toEqual([1, 1, 0, 1, 0]);
  });

  it("ignores faults of launches", () => {
    const { verdict, rules } = decideAnswer(fresh({ id: "r", match: {}, fault: { do: "no-capacity" } }), FACTS, 1);
    expect(verdict.fault).toBeUndefined();
    expect(rules.map(({ matched }) => matched)).toEqual([0]);
  });
});
