import { describe, expect, it } from "vitest";
import {
  makePlacement,
  makePod,
  makeRollout,
  makeSet,
  makeSnapshot,
  makeSpec,
  makePlacedSet,
  POLICY,
} from "../../test/a-set.ts";
import { planPass, type PassSnapshot } from "./plan-pass.ts";
import type { AuditRecord, ReplicaSet } from "./replica-set.ts";

const AUDIT: AuditRecord = {
  id: "a",
  eventType: "SCALED",
  details: "{}",
  timestampMs: 0,
  replicaSet: "web",
  traceparent: "",
};
const SPEC = makeSpec({ replicasDesired: 1 });

function seenOf(record: ReplicaSet, rest: Partial<PassSnapshot> = {}): PassSnapshot {
  return {
    nowMs: 1_000_000,
    fence: 1,
    rollout: undefined,
    record,
    snapshot: makeSnapshot(record, ["n1"]),
    occupied: new Map(),
    restarts: new Map(),
    confirmed: new Set(),
    answers: [],
    inFlight: new Set(),
    machinesNotBeforeMs: 0,
    doneUnder: undefined,
    ...rest,
  };
}

const stepsOf = (seen: PassSnapshot): readonly string[] =>
  planPass(seen, { ...POLICY, unhealthyMs: 1000 }).steps.map(({ kind, because }) => `${kind}: ${because}`);

describe("a round of a pass", () => {
  const whole = makePlacedSet(["n1"]);
  const [name, pod] = makePod(whole, makePlacement("", 1));
  const unconfirmed = makeSnapshot(whole, ["n1"], { pods: new Map([[name, pod]]) });
  const noPods = makeSnapshot(whole, ["n1"], { pods: new Map() });
  const rollout = {
    record: makeRollout({ id: "web" }),
    sets: undefined,
    isFenced: true,
    blind: false,
    wait: undefined,
  };

  it.each<[string, PassSnapshot, readonly string[]]>([
    ["has no step for a set in its desired state", seenOf(whole), []],
    ["takes over a set of a former owner, and does nothing else", seenOf({ ...whole, fence: 0 }), ["take: new-owner"]],
    [
      "creates the pods of a change in the same round",
      seenOf(makeSet({ spec: SPEC })),
      ["change: too-few", "create: missing"],
    ],
    [
      "publishes audits first",
      seenOf(makeSet({ spec: SPEC, outbox: [AUDIT] })),
      ["publish-audits: not-published", "change: too-few", "create: missing"],
    ],
    ["creates a missing pod", seenOf(whole, { snapshot: noPods }), ["create: missing"]],
    [
      "does not create a pod whose creation is in flight",
      seenOf(whole, { snapshot: noPods, inFlight: new Set([name]) }),
      [],
    ],
    ["confirms a pod", seenOf(whole, { snapshot: unconfirmed }), ["confirm: not-placed"]],
    ["does not confirm a pod twice", seenOf(whole, { snapshot: unconfirmed, confirmed: new Set([pod.uid]) }), []],
    [
      "gives a placement whose name is taken another ordinal",
      seenOf(whole, { snapshot: noPods, answers: [{ kind: "name-taken", ordinal: 1 }] }),
      ["change: pod-name-taken", "create: missing"],
    ],
    [
      "only notes that the rolling update of the set is missing",
      seenOf({ ...makeSet({ spec: SPEC }), rollout: "gone" }, { snapshot: undefined }),
      ["change: trouble-changed"],
    ],
    [
      "removes the record of a deleted set once its pods and machines are gone",
      seenOf(makeSet({ deletion: { keepPods: false, atMs: 0 } })),
      ["remove-record: deleted"],
    ],
    [
      "takes over the rolling update of its name before it changes the set",
      seenOf(makeSet({ spec: SPEC }), { rollout: { ...rollout, record: makeRollout({ fence: 0 }) } }),
      ["take-roll: new-owner"],
    ],
    [
      "writes the sets of an update that another farm has run",
      seenOf(whole, { rollout: { ...rollout, isFenced: false, sets: [{ set: whole, healthy: 1 }, undefined] } }),
      ["fence-sets: new-owner"],
    ],
    [
      "continues with the set while a set of the update cannot be read",
      seenOf(whole, { rollout, snapshot: noPods }),
      ["create: missing"],
    ],
  ])("%s", (_title, seen, steps) => {
    expect(stepsOf(seen)).toEqual(steps);
  });
});
