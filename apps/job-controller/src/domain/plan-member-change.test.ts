import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  KIND,
  NAMESPACE,
  nameOf,
  buildReplicaLabels,
  testJob,
  testMember,
  type MemberOptions,
} from "../../test/member-world.ts";
import { buildPodsKey, buildServicesKey, makeExpectations } from "../members/expectations.ts";
import { recordMemberChange } from "../members/record-member-change.ts";
import type { MemberObject } from "./ownership.ts";
import { planMemberChange, type MemberChange, type MemberStep } from "./plan-member-change.ts";

const mnist = testJob("mnist");
const resnet = testJob("resnet");
const cache = new Map([mnist, resnet].map((job) => [job.metadata.name, job]));
const plan = (change: MemberChange<MemberObject>): MemberStep[] =>
  planMemberChange(change, KIND, (namespace, name) => (namespace === NAMESPACE ? cache.get(name) : undefined));
const describeStep = (step: MemberStep): string =>
  step.kind === "wake"
    ? `wake ${step.job}: ${step.because}`
    : step.kind === "creation-observed"
      ? `${step.kind} ${step.set.jobUid} ${step.set.replicaType}: ${step.because}`
      : `${step.kind}: ${step.because}`;

const member = (more: MemberOptions = {}) => testMember("mnist", "worker", 0, { owner: mnist, ...more });
const later = (more: MemberOptions = {}) => member({ resourceVersion: "2", ...more });
const labelsOfJob = (name: string, replicaType = "worker") => buildReplicaLabels(name, replicaType, 0);
const without = (key: string) =>
  Object.fromEntries(Object.entries(labelsOfJob("mnist")).filter(([each]) => each !== key));
const TYPE = KIND.labelKeys.replicaTypeLabelKey;
const foreign = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "mnist", uid: "uid-of-mnist", controller: true };

describe("an addition", () => {
  it.each<[string, MemberObject, string[]]>([
    [
      "meets the creation and wakes the job",
      member(),
      ["creation-observed uid-of-mnist worker: is-there", "wake team/mnist: its-member"],
    ],
    ["that is being deleted is ignored", member({ deleting: true }), []],
    ["without a type label is ignored", member({ labels: without(TYPE) }), []],
    ["of another kind's member is ignored", member({ owner: foreign }), []],
    ["of an orphan wakes the job that selects it", testMember("mnist", "worker", 0), ["wake team/mnist: its-labels"]],
    ["of an orphan that no job selects wakes no job", testMember("unknown", "worker", 0), []],
    [
      "of a member of an earlier job of the name meets no expectation of this one",
      member({ owner: testJob("mnist", { uid: "earlier" }) }),
      ["creation-observed earlier worker: is-there"],
    ],
    [
      "before the cache has the job still meets its creation",
      testMember("unknown", "worker", 0, { owner: testJob("unknown") }),
      ["creation-observed uid-of-unknown worker: is-there"],
    ],
  ])("%s", (_what, after, steps) => {
    expect(plan({ before: undefined, after }).map(describeStep)).toEqual(steps);
  });
});

describe("an update", () => {
  it.each<[string, MemberObject, MemberObject, string[]]>([
    ["of nothing, as in a resync, is ignored", member(), member(), []],
    ["of anything else wakes the owner only", member(), later({ ready: true }), ["wake team/mnist: its-member"]],
    [
      "that begins a deletion meets it",
      member(),
      later({ deleting: true }),
      ["deletion-observed: is-being-deleted", "wake team/mnist: its-member"],
    ],
    [
      "of the owner wakes the old and the new one, and moves between their sets",
      member(),
      later({ owner: resnet }),
      [
        "creation-observed uid-of-mnist worker: came-and-went",
        "creation-observed uid-of-resnet worker: is-there",
        "deletion-observed: left-the-set",
        "wake team/resnet: its-member",
        "wake team/mnist: was-its-member",
      ],
    ],
    [
      "of the labels also wakes the job that selects it now",
      member(),
      later({ labels: labelsOfJob("resnet") }),
      ["wake team/mnist: its-member", "wake team/resnet: its-labels"],
    ],
    [
      "of the type moves between the sets of one job",
      member(),
      later({ labels: labelsOfJob("mnist", "ps") }),
      [
        "creation-observed uid-of-mnist worker: came-and-went",
        "creation-observed uid-of-mnist ps: is-there",
        "deletion-observed: left-the-set",
        "wake team/mnist: its-member",
      ],
    ],
    [
      "that releases it wakes the releasing job, and the one that may adopt it",
      member({ labels: labelsOfJob("resnet") }),
      testMember("resnet", "worker", 0, { resourceVersion: "2" }),
      [
        "creation-observed uid-of-mnist worker: came-and-went",
        "deletion-observed: left-the-set",
        "wake team/resnet: its-labels",
        "wake team/mnist: was-its-member",
      ],
    ],
    [
      "of an orphan's labels wakes the job that selected it and the one that does now",
      testMember("mnist", "worker", 0),
      testMember("resnet", "worker", 0, { resourceVersion: "2" }),
      ["wake team/resnet: its-labels", "wake team/mnist: had-its-labels"],
    ],
  ])("%s", (_what, before, after, steps) => {
    expect(plan({ before, after }).map(describeStep)).toEqual(steps);
  });
});

describe("a deletion", () => {
  it.each<[string, MemberObject, string[]]>([
    [
      "meets the deletion and a creation that was never reported, and wakes the job",
      member(),
      [
        "creation-observed uid-of-mnist worker: came-and-went",
        "deletion-observed: is-gone",
        "wake team/mnist: was-its-member",
      ],
    ],
    ["without a type label wakes no job", member({ labels: without(TYPE) }), ["deletion-observed: is-gone"]],
    [
      "of another kind's member only frees a name",
      member({ owner: foreign }),
      ["deletion-observed: is-gone", "wake team/mnist: had-its-labels"],
    ],
    [
      "of an object that no job manages or selects wakes no job",
      member({ owner: foreign, labels: {} }),
      ["deletion-observed: is-gone"],
    ],
    [
      "of a member of an earlier job of the name wakes this one, which may wait for the name",
      member({ owner: testJob("mnist", { uid: "earlier" }) }),
      [
        "creation-observed earlier worker: came-and-went",
        "deletion-observed: is-gone",
        "wake team/mnist: had-its-labels",
      ],
    ],
    [
      "of an orphan wakes the job that selected it",
      testMember("mnist", "worker", 0),
      ["deletion-observed: is-gone", "wake team/mnist: had-its-labels"],
    ],
  ])("%s", (_what, before, steps) => {
    expect(plan({ before, after: undefined }).map(describeStep)).toEqual(steps);
  });
});

function world() {
  const woken: string[] = [];
  const expectations = makeExpectations();
  const jobOf = (_: string, name: string) => cache.get(name);
  const deps = { kind: KIND, jobOf, expectations, enqueue: (key: string) => void woken.push(key) };
  const note = (keyOf: typeof buildPodsKey, before: MemberObject | undefined, after: MemberObject | undefined) =>
    recordMemberChange(deps, keyOf, { before, after });
  return { woken, expectations, note };
}

describe("changes", () => {
  it.each([
    ["pods", buildPodsKey],
    ["services", buildServicesKey],
  ] as const)("of %s meet expectations and wake the job", (_what, keyOf) => {
    const { woken, expectations, note } = world();
    const key = keyOf("uid-of-mnist", "worker");
    const [first, second] = [member(), testMember("mnist", "worker", 1, { owner: mnist })];
    expectations.raise(key, { creations: [first, second].map(nameOf) });
    note(keyOf, undefined, first);
    expect(expectations.outstanding(key).creations).toEqual(["mnist-worker-1"]);
    note(keyOf, undefined, second);
    expect(expectations.satisfied(key)).toBe(true);
    expectations.raise(key, { deletions: ["uid-of-mnist-worker-0", "uid-of-mnist-worker-1"] });
    note(keyOf, first, later({ deleting: true }));
    expect(expectations.outstanding(key).deletions).toEqual(["uid-of-mnist-worker-1"]);
    note(keyOf, second, undefined);
    expect(expectations.satisfied(key)).toBe(true);
    expect(woken).toEqual(["team/mnist", "team/mnist", "team/mnist", "team/mnist"]);
  });

  it("of pods and of services do not meet each other's expectations", () => {
    const { expectations, note } = world();
    expectations.raise(buildPodsKey("uid-of-mnist", "worker"), { creations: ["mnist-worker-0"] });
    note(buildServicesKey, undefined, member());
    expect(expectations.satisfied(buildPodsKey("uid-of-mnist", "worker"))).toBe(false);
  });
});

const anyState = fc
  .record({
    owner: fc.constantFrom(mnist, resnet, undefined),
    labels: fc.constantFrom(labelsOfJob("mnist"), labelsOfJob("resnet"), labelsOfJob("mnist", "ps"), {}),
    deleting: fc.boolean(),
  })
  .map(({ owner, ...more }) => ({ ...more, ...(owner !== undefined && { owner }) }));

describe("whatever changes a member undergoes", () => {
  const lives = fc
    .array(anyState, { minLength: 1, maxLength: 8 })
    .map((states) =>
      states.map((state, at) =>
        testMember("mnist", "worker", 0, { ...state, deleting: at > 0 && state.deleting, resourceVersion: String(at) }),
      ),
    );
  const changes = (life: readonly MemberObject[]): MemberChange<MemberObject>[] => [
    { before: undefined, after: life[0] },
    ...life.map((before, at) => ({ before, after: life[at + 1] })),
  ];
  const managerOf = (state: MemberObject | undefined) =>
    state?.metadata?.ownerReferences?.map(({ name }) => `team/${name}`) ?? [];

  it("wakes each job that manages it before or after an update once", () => {
    fc.assert(
      fc.property(lives, (life) => {
        for (const { before, after } of changes(life)) {
          if (before === undefined || after === undefined) continue;
          const woken = plan({ before, after }).flatMap((step) => (step.kind === "wake" ? [step.job] : []));
          expect(woken).toEqual(expect.arrayContaining([...managerOf(before), ...managerOf(after)]));
          expect(new Set(woken).size).toBe(woken.length);
        }
      }),
    );
  });

  it("does not expect its deletion in a set that it has left", () => {
    fc.assert(
      fc.property(lives, (life) => {
        const { expectations, note } = world();
        const expected: string[] = [];
        for (const { before, after } of changes(life)) {
          note(buildPodsKey, before, after);
          const set = plan({ before: undefined, after }).find((step) => step.kind === "creation-observed");
          const now = set && buildPodsKey(set.set.jobUid, set.set.replicaType);
          for (const key of expected) expect(key === now || expectations.satisfied(key)).toBe(true);
          if (now === undefined || after?.metadata?.deletionTimestamp !== undefined) continue;
          expectations.raise(now, { deletions: ["uid-of-mnist-worker-0"] });
          expected.push(now);
        }
        expect(expectations.size()).toBe(0);
      }),
    );
  });
});
