import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decideFault, drawShare, type FaultRule, type FaultVerdict, type RuleState } from "./decide-fault.ts";
import { buildRequestFacts, type RequestFacts } from "./request-facts.ts";

const PODS = "/api/v1/namespaces/default/pods";

function facts(method: string, url: string, more: { who?: string } = {}): RequestFacts {
  return buildRequestFacts({ method, url, who: more.who ?? "" });
}

function run(rules: readonly FaultRule[], requests: readonly RequestFacts[], seed = 1) {
  let states: readonly RuleState[] = rules.map((rule) => ({ rule, matched: 0, injected: 0 }));
  const verdicts: FaultVerdict[] = [];
  for (const request of requests) {
    const decided = decideFault(states, request, seed);
    states = decided.rules;
    verdicts.push(decided.verdict);
  }
  return { states, verdicts };
}

describe("the attributes of a request", () => {
  it.each([
    ["GET", `${PODS}?limit=5`, { verb: "list", resource: "pods", namespace: "default", name: "" }],
    ["GET", `${PODS}/a`, { verb: "get", resource: "pods", namespace: "default", name: "a" }],
    ["GET", `${PODS}?watch=true`, { verb: "watch", resource: "pods" }],
    ["GET", "/api/v1/pods?watch=0", { verb: "list", resource: "pods", namespace: "" }],
    ["POST", `${PODS}/a/binding`, { verb: "create", resource: "pods/binding", name: "a" }],
    ["PUT", `${PODS}/a/status`, { verb: "update", resource: "pods/status", name: "a" }],
    ["PATCH", "/apis/apps/v1/namespaces/x/deployments/d", { verb: "patch", resource: "deployments", name: "d" }],
    ["DELETE", PODS, { verb: "deletecollection", resource: "pods" }],
    ["DELETE", "/api/v1/namespaces/x", { verb: "delete", resource: "namespaces", namespace: "", name: "x" }],
    ["PUT", "/api/v1/namespaces/x/finalize", { verb: "update", resource: "namespaces/finalize", name: "x" }],
    ["GET", "/healthz", { verb: "other", resource: "/healthz", name: "" }],
    ["GET", "//", { verb: "other", resource: "/" }],
  ] as const)("%s %s", (method, url, wanted) => {
    expect(facts(method, url)).toMatchObject(wanted);
  });
});

describe("the effect on a request", () => {
  const answer = { do: "answer", code: 500 } as const;

  it("is none if no rule matches", () => {
    const rule: FaultRule = {
      id: "r",
      match: { verbs: ["patch"], resources: ["pods"], who: ["watcher"] },
      fault: answer,
    };
    const patch = (url: string, who: string): RequestFacts => facts("PATCH", url, { who });
    const { verdicts } = run(
      [rule],
      [
        patch(`${PODS}/a`, "watcher"),
        patch(`${PODS}/a/status`, "watcher"),
        patch(`${PODS}/a`, "other"),
        facts("GET", `${PODS}/a`, { who: "watcher" }),
      ],
    );
    expect(verdicts.map(({ because }) => because)).toEqual([["r"], [], [], []]);
  });

  it("is the fault of the first rule that acts, after the delays before it", () => {
    const rules: FaultRule[] = [
      { id: "slow", match: {}, fault: { do: "delay", ms: 5 } },
      { id: "slower", match: {}, fault: { do: "delay", ms: 7 } },
      { id: "first", match: {}, fault: answer, times: 1 },
      { id: "second", match: {}, fault: { do: "drop" } },
    ];
    const { verdicts, states } = run(rules, [facts("GET", PODS), facts("GET", PODS)]);
    expect(verdicts).toEqual([
      { delayMs: 12, fault: answer, because: ["slow", "slower", "first"] },
      { delayMs: 12, fault: { do: "drop" }, because: ["slow", "slower", "second"] },
    ]);
    expect(states.map(({ injected }) => injected)).toEqual([2, 2, 1, 1]);
  });

  it("spares as many of the first matching requests as the rule states", () => {
    const rule: FaultRule = { id: "r", match: { verbs: ["get"] }, fault: answer, after: 2, times: 1 };
    const get = facts("GET", `${PODS}/a`);
    const { verdicts, states } = run([rule], [get, facts("GET", PODS), get, get, get]);
    expect(verdicts.map(({ because }) => because)).toEqual([[], [], [], ["r"], []]);
    expect(states).toMatchObject([{ matched: 3, injected: 1 }]);
  });

  it("never happens more often than the rule permits", () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(20),
        fc.nat(100),
        (seed, share, times, count) => {
          const rule: FaultRule = { id: "r", match: {}, fault: answer, share, times };
          const { states, verdicts } = run([rule], Array<RequestFacts>(count).fill(facts("GET", PODS)), seed);
          const injected = verdicts.filter(({ fault }) => fault !== undefined).length;
          expect(injected).toBeLessThanOrEqual(times);
          expect(states[0]?.injected).toBe(injected);
        },
      ),
    );
  });

  it("has the same draws for the same seed, whatever occurs in between", () => {
    const share: FaultRule = { id: "share", match: { verbs: ["list"] }, fault: answer, share: 0.5 };
    const noise: FaultRule = { id: "noise", match: { verbs: ["get"] }, fault: { do: "drop" }, share: 0.3 };
    const lists = Array.from({ length: 50 }, () => facts("GET", PODS));
    const mixed = lists.flatMap((request) => [request, facts("GET", `${PODS}/a`)]);
    const ofLists = (verdicts: readonly FaultVerdict[], requests: readonly RequestFacts[]): boolean[] =>
      verdicts.filter((_, index) => requests[index]?.verb === "list").map(({ fault }) => fault !== undefined);
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const plain = run([share], lists, seed).verdicts;
        const disturbed = run([noise, share], mixed, seed).verdicts;
        expect(ofLists(disturbed, mixed)).toEqual(ofLists(plain, lists));
      }),
      { numRuns: 20 },
    );
  });

  it("is drawn about as often as the share states", () => {
    const draws = Array.from({ length: 10_000 }, (_, turn) => drawShare(42, "rule", turn));
    const below = draws.filter((draw) => draw < 0.1).length;
    expect(below).toBeGreaterThan(850);
    expect(below).toBeLessThan(1150);
  });
});
