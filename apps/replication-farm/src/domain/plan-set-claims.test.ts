import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readLabelSelector } from "@muster/names";
import { planSetClaims, type LiveFarm, type OwnableSet } from "./plan-set-claims.ts";

const all = readLabelSelector("selector", "");
const farm = (session: string, selector = ""): LiveFarm => ({
  session,
  selector: readLabelSelector("selector", selector),
});
const sets = (count: number): OwnableSet[] =>
  Array.from({ length: count }, (_none, index) => ({ name: `set-${index}`, labels: {}, owner: undefined }));

/** Returns the state after every farm has carried out its plans, round by round. */
function settle(farms: readonly LiveFarm[], start: readonly OwnableSet[]): OwnableSet[] {
  const live = new Set(farms.map(({ session }) => session));
  let now = start.map((set) => (set.owner !== undefined && live.has(set.owner) ? set : { ...set, owner: undefined }));
  for (let round = 0; round < 3; round += 1) {
    for (const { session } of farms) {
      const steps = new Map(planSetClaims(session, farms, now).map((step) => [step.set, step.kind]));
      now = now.map((set) => {
        const step = steps.get(set.name);
        return step === undefined ? set : { ...set, owner: step === "claim" ? session : undefined };
      });
    }
  }
  return now;
}

describe("farms that share sets", () => {
  it("assign an owner to every set, and spread the sets evenly", () => {
    const farms = ["f1", "f2", "f3", "f4"].map((name) => farm(name));
    const owned = settle(farms, sets(400));
    const counts = farms.map(({ session }) => owned.filter(({ owner }) => owner === session).length);
    expect(counts.reduce((sum, count) => sum + count)).toBe(400);
    expect(Math.min(...counts)).toBeGreaterThan(60);
  });

  it("take over a dead farm's sets, and move no others", () => {
    const farms = ["f1", "f2", "f3"].map((name) => farm(name));
    const before = settle(farms, sets(100));
    const after = settle(farms.slice(1), before);
    for (const [index, set] of before.entries()) {
      if (set.owner === "f1") expect(["f2", "f3"]).toContain(after[index]?.owner);
      else expect(after[index]?.owner).toBe(set.owner);
    }
  });

  it("leave a set without an owner if no farm selects it, also if one selected it before", () => {
    const mine = { name: "web", labels: { team: "b" }, owner: "f1" };
    expect(planSetClaims("f1", [farm("f1", "team=a")], [mine])).toEqual([
      { kind: "release", set: "web", because: "not-selected" },
    ]);
    expect(planSetClaims("f1", [farm("f1", "team=a")], [{ ...mine, owner: undefined }])).toEqual([]);
  });

  it("never take a set from a live farm", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 6 }), fc.nat({ max: 30 }), (names, count) => {
        const farms = names.map((session) => ({ session, selector: all }));
        const [first = ""] = names;
        const owned = sets(count).map((set, index) => ({ ...set, owner: names[index % (names.length + 1)] }));
        for (const step of planSetClaims(first, farms, owned)) {
          const owner = owned.find(({ name }) => name === step.set)?.owner;
          expect(owner).toBe(step.kind === "claim" ? undefined : first);
        }
      }),
    );
  });
});
