import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EXPECTATION_MS, makeExpectations, buildPodsKey, buildServicesKey, type Expectations } from "./expectations.ts";

const PODS = buildPodsKey("uid-1", "worker");
const SERVICES = buildServicesKey("uid-1", "worker");

/** Whether no change is outstanding for pods and services of these types. */
function areSatisfied(expectations: Expectations, jobUid: string, types: readonly string[]): boolean {
  return types.every(
    (type) =>
      expectations.satisfied(buildPodsKey(jobUid, type)) && expectations.satisfied(buildServicesKey(jobUid, type)),
  );
}

function clock() {
  let ms = 0;
  return { now: () => ms, pass: (more: number) => (ms += more) };
}

describe("the keys", () => {
  it("contain the uid of the job, the replica type, and the kind of member", () => {
    expect(PODS).toBe("uid-1/worker/pods");
    expect(SERVICES).toBe("uid-1/worker/services");
  });
});

describe("expectations", () => {
  it("are satisfied if nothing was ever expected", () => {
    expect(makeExpectations().satisfied(PODS)).toBe(true);
  });

  it("wait for every creation, not only for the last one", () => {
    const expectations = makeExpectations();
    for (const name of ["a", "b", "c"]) expectations.raise(PODS, { creations: [name] });
    expectations.creationObserved(PODS, "c");
    expect(expectations.outstanding(PODS)).toEqual({ creations: ["a", "b"], deletions: [] });
    expectations.creationObserved(PODS, "a");
    expectations.creationObserved(PODS, "b");
    expect(expectations.satisfied(PODS)).toBe(true);
  });

  it("are not met by a repeated event, nor by one for another owner", () => {
    const expectations = makeExpectations();
    expectations.raise(PODS, { creations: ["a", "b"], deletions: ["uid-of-c"] });
    for (const name of ["a", "a", "x"]) expectations.creationObserved(PODS, name);
    for (const uid of ["x", "y"]) expectations.deletionObserved(uid);
    expect(expectations.outstanding(PODS)).toEqual({ creations: ["b"], deletions: ["uid-of-c"] });
  });

  it("of a deletion are met in whatever set the object is by then", () => {
    const expectations = makeExpectations();
    expectations.raise(PODS, { deletions: ["uid-of-c"] });
    expectations.raise(buildPodsKey("uid-1", "ps"), { deletions: ["uid-of-c"] });
    expect(expectations.satisfied(PODS)).toBe(true);
    expectations.deletionObserved("uid-of-c");
    expect(areSatisfied(expectations, "uid-1", ["worker", "ps"])).toBe(true);
  });

  it("expire after five minutes, each separately", () => {
    const { now, pass } = clock();
    const expectations = makeExpectations(now);
    expectations.raise(PODS, { creations: ["a"] });
    pass(EXPECTATION_MS - 1);
    expectations.raise(PODS, { creations: ["b"] });
    expect(expectations.outstanding(PODS).creations).toEqual(["a", "b"]);
    pass(1);
    expect(expectations.outstanding(PODS).creations).toEqual(["b"]);
    pass(EXPECTATION_MS);
    expect(expectations.satisfied(PODS)).toBe(true);
  });

  it("are satisfied for a job only after pods and services of all its types were observed", () => {
    const expectations = makeExpectations();
    const open = () => areSatisfied(expectations, "uid-1", ["worker", "ps"]);
    expect(open()).toBe(true);
    expectations.raise(SERVICES, { deletions: ["s"] });
    expectations.raise(buildPodsKey("uid-1", "ps"), { creations: ["p"] });
    expectations.deletionObserved("s");
    expect(open()).toBe(false);
    expectations.creationObserved(buildPodsKey("uid-1", "ps"), "p");
    expect(open()).toBe(true);
  });

  it("of a deleted job are forgotten, and the next job of its name has its own", () => {
    const expectations = makeExpectations();
    expectations.raise(PODS, { creations: ["a"] });
    expectations.raise(SERVICES, { creations: ["a"] });
    const next = buildPodsKey("uid-2", "worker");
    expectations.raise(next, { creations: ["a"] });
    expectations.deleteJob("uid-1");
    expect(expectations.size()).toBe(1);
    expect([PODS, SERVICES, next].map((key) => expectations.satisfied(key))).toEqual([true, true, false]);
  });

  it("that a pass leaves behind after the deletion of its job do not stay forever", () => {
    const { now, pass } = clock();
    const expectations = makeExpectations(now);
    for (let job = 0; job < 100; job += 1) {
      pass(EXPECTATION_MS / 10);
      expectations.raise(buildPodsKey(`gone-${job}`, "worker"), { creations: ["a"] });
    }
    expect(expectations.size()).toBeLessThanOrEqual(11);
  });
});

type Step =
  | {
      readonly kind: "raise" | "lower";
      readonly key: string;
      readonly creations: string[];
      readonly deletions: string[];
    }
  | { readonly kind: "created" | "deleted"; readonly key: string; readonly id: string }
  | { readonly kind: "pass"; readonly ms: number }
  | { readonly kind: "delete-job"; readonly uid: string };

const uid = fc.constantFrom("j1", "j2");
const key = fc.tuple(uid, fc.constantFrom("a", "b")).map(([job, type]) => buildPodsKey(job, type));
const id = fc.constantFrom("p", "q", "r");
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constantFrom("raise" as const, "lower" as const),
    key,
    creations: fc.array(id, { maxLength: 3 }),
    deletions: fc.array(id, { maxLength: 3 }),
  }),
  fc.record({ kind: fc.constantFrom("created" as const, "deleted" as const), key, id }),
  fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: EXPECTATION_MS }) }),
  fc.record({ kind: fc.constant("delete-job" as const), uid }),
);

/** A row of a flat list: the expected change, its key and its start. */
type Fact = {
  readonly key: string;
  readonly id: string;
  readonly kind: "created" | "deleted";
  readonly sinceMs: number;
};

function model(facts: readonly Fact[], step: Step, nowMs: number): Fact[] {
  const without = (key: string, kind: Fact["kind"], ids: readonly string[]) =>
    facts.filter((fact) => fact.key !== key || fact.kind !== kind || !ids.includes(fact.id));
  switch (step.kind) {
    case "pass":
      return [...facts];
    case "delete-job":
      return facts.filter((fact) => !fact.key.startsWith(`${step.uid}/`));
    case "created":
      return without(step.key, step.kind, [step.id]);
    case "deleted":
      return facts.filter((fact) => fact.kind !== "deleted" || fact.id !== step.id);
    case "raise":
    case "lower": {
      const fresh = (kind: Fact["kind"], ids: readonly string[]) =>
        [...new Set(ids)].map((id) => ({ key: step.key, id, kind, sinceMs: nowMs }));
      const rest = without(step.key, "created", step.creations).filter(
        (fact) => fact.key !== step.key || fact.kind !== "deleted" || !step.deletions.includes(fact.id),
      );
      if (step.kind === "lower") return rest;
      const moved = rest.filter((fact) => fact.kind !== "deleted" || !step.deletions.includes(fact.id));
      return [...moved, ...fresh("created", step.creations), ...fresh("deleted", step.deletions)];
    }
  }
}

function apply(expectations: Expectations, step: Step, pass: (ms: number) => void): void {
  if (step.kind === "pass") pass(step.ms);
  else if (step.kind === "delete-job") expectations.deleteJob(step.uid);
  else if ("creations" in step) expectations[step.kind](step.key, step);
  else if (step.kind === "created") expectations.creationObserved(step.key, step.id);
  else expectations.deletionObserved(step.id);
}

it("behave as a flat list of facts, whatever happens in whatever order", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const { now, pass } = clock();
      const expectations = makeExpectations(now);
      let facts: Fact[] = [];
      for (const each of steps) {
        apply(expectations, each, pass);
        facts = model(facts, each, now());
        for (const job of ["j1", "j2"]) {
          const live = facts.filter((fact) => fact.key.startsWith(job) && now() - fact.sinceMs < EXPECTATION_MS);
          expect(areSatisfied(expectations, job, ["a", "b"])).toBe(live.length === 0);
          expect(expectations.podsSatisfied(job)).toBe(live.every(({ key }) => !key.endsWith("/pods")));
          for (const type of ["a", "b"]) {
            const key = buildPodsKey(job, type);
            const ids = (kind: Fact["kind"]) =>
              new Set(live.filter((fact) => fact.key === key && fact.kind === kind).map((fact) => fact.id));
            const found = expectations.outstanding(key);
            expect(new Set(found.creations)).toEqual(ids("created"));
            expect(new Set(found.deletions)).toEqual(ids("deleted"));
          }
        }
      }
    }),
  );
});
