import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  isEndPublished,
  isObservedLater,
  nextForgetMs,
  planPublish,
  type DesiredState,
  type PublishedState,
  type PublishStep,
  type PublishSnapshot,
} from "./plan-publish.ts";
import { podRules, type PodState } from "./pod-state.ts";

const NOW = 1_000_000;
const KEEP = 10_000;
const MINUTE = 60_000;
const KEY = "session.s.p";

function state(part: Partial<PodState> = {}): PodState {
  return {
    owner: { kind: "session", id: "s" },
    component: "c",
    namespace: "ns",
    pod: "p",
    uid: "u1",
    resourceVersion: 10,
    podIp: "",
    node: "",
    health: "READY",
    reason: "",
    message: "",
    deleting: false,
    deleted: false,
    exitCode: undefined,
    observedAtMs: NOW - 1000,
    ...part,
  };
}

type World = {
  readonly seen?: Partial<PodState> & { readonly createdAtMs?: number };
  readonly published?: Partial<PodState>;
  /** The last observed states of removed pods of this name. */
  readonly removed?: readonly Partial<PodState>[];
  /** Resource version up to which the informer has observed; 1000 by default. */
  readonly sight?: number;
  readonly listedAtMs?: number;
};

function plan({ seen, published: last, removed = [], sight = 1000, listedAtMs = 0 }: World): PublishStep<PodState>[] {
  const desired = seen === undefined ? [] : [{ key: KEY, state: state(seen), createdAtMs: seen.createdAtMs ?? 0 }];
  const published = last === undefined ? [] : [{ key: KEY, state: state(last), revision: 7 }];
  return planPublish(
    {
      nowMs: NOW,
      sight: { version: sight, listedAtMs },
      desired,
      removed: removed.map((each) => ({ key: KEY, state: state(each) })),
      published,
    },
    { keepDeletedMs: KEEP },
    podRules,
  );
}

const running = { health: "NOT_READY" } as const;

describe("the published state", () => {
  it.each<[string, World, Partial<PublishStep<PodState>> & { readonly puts?: Partial<PodState> }]>([
    ["a pod that is not published", { seen: {} }, { because: "new", expectedRevision: undefined }],
    [
      "a change",
      { seen: { ...running, resourceVersion: 11 }, published: {} },
      { because: "changed", expectedRevision: 7, puts: { health: "NOT_READY", resourceVersion: 11 } },
    ],
    [
      "a change by the passing of time alone",
      { seen: { health: "FAILED" }, published: { health: "UNKNOWN" } },
      { because: "changed", puts: { health: "FAILED", resourceVersion: 10 } },
    ],
    [
      "a later pod of the same name",
      { seen: { uid: "u2", resourceVersion: 20 }, published: { deleted: true } },
      { because: "replaced", puts: { uid: "u2", deleted: false } },
    ],
    [
      "that a pod is gone",
      { published: {} },
      { because: "gone", puts: { deleted: true, health: "FAILED", reason: "Deleted", resourceVersion: 10 } },
    ],
    [
      "that a pod is gone that had succeeded",
      { published: { health: "SUCCEEDED", exitCode: 0 } },
      { because: "gone", puts: { deleted: true, health: "SUCCEEDED", exitCode: 0 } },
    ],
    [
      "that a pod is gone that had failed, with its own reason",
      { published: { health: "FAILED", reason: "Evicted" } },
      { because: "gone", puts: { deleted: true, health: "FAILED", reason: "Evicted" } },
    ],
    [
      "how a pod ended that was removed before that was published",
      { removed: [{ health: "SUCCEEDED", exitCode: 0, resourceVersion: 12 }], published: {} },
      { because: "gone", expectedRevision: 7, puts: { deleted: true, health: "SUCCEEDED", exitCode: 0 } },
    ],
    [
      "a pod that came, ended and was removed before any write",
      { removed: [{ health: "SUCCEEDED", exitCode: 0 }] },
      { key: KEY, because: "gone", expectedRevision: undefined, puts: { deleted: true, health: "SUCCEEDED" } },
    ],
    [
      "that a pod failed which was removed while it ran",
      { removed: [running], published: {} },
      { because: "gone", puts: { deleted: true, health: "FAILED", reason: "Deleted" } },
    ],
    [
      "the published end, whatever was seen last of a removed pod",
      { removed: [{ health: "SUCCEEDED", resourceVersion: 12 }], published: { health: "FAILED", reason: "Evicted" } },
      { because: "gone", puts: { deleted: true, health: "FAILED", reason: "Evicted" } },
    ],
    [
      "the end of a removed pod before the pod that has its name now",
      {
        seen: { uid: "u3", resourceVersion: 30 },
        removed: [
          { uid: "u2", resourceVersion: 20 },
          { health: "SUCCEEDED", resourceVersion: 12 },
        ],
        published: {},
      },
      { because: "gone", puts: { uid: "u1", deleted: true, health: "SUCCEEDED" } },
    ],
    [
      "the end of a removed pod after that of an earlier one of its name",
      { removed: [{ uid: "u2", health: "SUCCEEDED", resourceVersion: 20 }], published: { deleted: true } },
      { because: "gone", puts: { uid: "u2", deleted: true, health: "SUCCEEDED" } },
    ],
    [
      "an address that comes after the end, with the published end",
      {
        seen: { ...running, podIp: "1.2.3.4", resourceVersion: 11 },
        published: { health: "FAILED", reason: "Evicted" },
      },
      { because: "changed", puts: { health: "FAILED", reason: "Evicted", podIp: "1.2.3.4" } },
    ],
    [
      "that a gone pod is forgotten once it was kept long enough",
      { published: { deleted: true, observedAtMs: NOW - KEEP } },
      { kind: "forget", because: "kept-long-enough", expectedRevision: 7 },
    ],
    [
      "the pods of a cluster that was rebuilt, whose versions are lower",
      { seen: { uid: "u2", resourceVersion: 3, createdAtMs: NOW - 500 }, published: {}, sight: 5 },
      { because: "replaced", puts: { uid: "u2", resourceVersion: 3 } },
    ],
    [
      "that the pods of the cluster before are gone",
      { published: { observedAtMs: NOW - 2 * MINUTE }, sight: 5, listedAtMs: NOW - 1 },
      { because: "gone" },
    ],
  ])("is %s", (_title, world, { puts, ...expected }) => {
    const steps = plan(world);
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject(expected);
    if (puts !== undefined) expect(steps[0]).toMatchObject({ kind: "put", state: { ...puts, observedAtMs: NOW } });
  });

  it.each<[string, World]>([
    ["what is published already", { seen: {}, published: {} }],
    ["a new resource version and nothing else", { seen: { resourceVersion: 12 }, published: {} }],
    ["an earlier state over a later one", { seen: { ...running, resourceVersion: 9 }, published: {} }],
    ["an earlier pod of the same name over a later one", { seen: { uid: "u0", resourceVersion: 9 }, published: {} }],
    ["a pod that another replica saw go", { seen: { resourceVersion: 11 }, published: { deleted: true } }],
    [
      "another end than the published one",
      { seen: { health: "SUCCEEDED", resourceVersion: 11 }, published: { health: "FAILED" } },
    ],
    ["the end of a pod that is newer than our sight", { published: {}, sight: 9 }],
    [
      "the end of a pod that was published after our list, in a cluster of lower versions",
      { published: {}, sight: 5, listedAtMs: NOW - MINUTE },
    ],
    ["a gone pod that may still be asked for", { published: { deleted: true, observedAtMs: NOW - KEEP + 1 } }],
    ["the end of a removed pod twice", { removed: [{ health: "SUCCEEDED" }], published: { deleted: true } }],
    [
      "the end of a removed pod after a later one of its name was published",
      {
        removed: [{ health: "SUCCEEDED" }],
        seen: { uid: "u2", resourceVersion: 20 },
        published: { uid: "u2", resourceVersion: 20 },
      },
    ],
    ["nothing", {}],
  ])("is never %s", (_title, world) => {
    expect(plan(world)).toEqual([]);
  });
});

const health = fc.constantFrom("UNKNOWN", "READY", "NOT_READY", "SUCCEEDED", "FAILED");
const anyState = fc
  .record({
    uid: fc.constantFrom("u1", "u2"),
    resourceVersion: fc.nat(30),
    health,
    podIp: fc.constantFrom("", "1.2.3.4"),
    deleted: fc.boolean(),
    observedAtMs: fc.integer({ min: NOW - 2 * KEEP, max: NOW }),
  })
  .map(state);
const key = fc.constantFrom("session.a.1", "session.a.2", "session.b.1", "job.c.1");
const unique = <Row extends { readonly key: string }>(row: fc.Arbitrary<Row>) =>
  fc.uniqueArray(row, { selector: (each) => each.key });
const desired: fc.Arbitrary<DesiredState<PodState>[]> = unique(
  fc.record({
    key,
    state: anyState.map((each) => ({ ...each, deleted: false })),
    createdAtMs: fc.integer({ min: 0, max: NOW }),
  }),
);
const published: fc.Arbitrary<PublishedState<PodState>[]> = unique(
  fc.record({ key, state: anyState, revision: fc.integer({ min: 1, max: 99 }) }),
);
const snapshot: fc.Arbitrary<PublishSnapshot<PodState>> = fc.record({
  nowMs: fc.constant(NOW),
  sight: fc.record({ version: fc.nat(40), listedAtMs: fc.integer({ min: 0, max: NOW }) }),
  desired,
  published,
});
const policy = { keepDeletedMs: KEEP };

/** The bucket after the steps. */
function apply(
  before: readonly PublishedState<PodState>[],
  steps: readonly PublishStep<PodState>[],
): PublishedState<PodState>[] {
  const after = new Map(before.map((each) => [each.key, each]));
  for (const step of steps) {
    if (step.kind === "forget") after.delete(step.key);
    else after.set(step.key, { key: step.key, state: step.state, revision: (step.expectedRevision ?? 0) + 1 });
  }
  return [...after.values()];
}

describe("any plan", () => {
  it("leaves nothing to plan once it is executed, except forgotten objects that exist", () => {
    fc.assert(
      fc.property(snapshot, (world) => {
        const steps = planPublish(world, policy, podRules);
        const after = { ...world, published: apply(world.published, steps) };
        const forgotten = new Set(steps.filter((step) => step.kind === "forget").map((step) => step.key));
        const rest = planPublish(after, policy, podRules).filter((step) => !forgotten.has(step.key));
        expect(rest).toEqual([]);
      }),
    );
  });

  it("does not depend on the order of observations", () => {
    fc.assert(
      fc.property(snapshot, (world) => {
        const reversed = {
          ...world,
          desired: [...world.desired].reverse(),
          published: [...world.published].reverse(),
        };
        expect(planPublish(reversed, policy, podRules)).toEqual(planPublish(world, policy, podRules));
      }),
    );
  });

  it("never lowers the resource version of a uid while versions are comparable, never changes an end, never revives an object", () => {
    fc.assert(
      fc.property(snapshot, (world) => {
        const trusted = { ...world, sight: { ...world.sight, listedAtMs: 0 } };
        const before = new Map(trusted.published.map((each) => [each.key, each.state]));
        for (const step of planPublish(trusted, policy, podRules)) {
          const old = before.get(step.key);
          if (step.kind === "forget" || old?.uid !== step.state.uid) continue;
          expect(step.state.resourceVersion).toBeGreaterThanOrEqual(old.resourceVersion);
          if (old.health === "SUCCEEDED" || old.health === "FAILED") expect(step.state.health).toBe(old.health);
          if (old.deleted) expect(step.state.deleted).toBe(true);
        }
      }),
    );
  });

  it("writes against the observed revision", () => {
    fc.assert(
      fc.property(snapshot, (world) => {
        const revisions = new Map(world.published.map((each) => [each.key, each.revision]));
        for (const step of planPublish(world, policy, podRules)) {
          expect(step.expectedRevision).toBe(revisions.get(step.key));
        }
      }),
    );
  });
});

/** One pod's life at the API server: uids change, versions only grow. */
type Moment = { readonly uid: string; readonly version: number } | { readonly version: number };

describe("two replicas that observe the same world with different delays", () => {
  const step = fc.record({
    replica: fc.constantFrom(0, 1),
    kind: fc.constantFrom("catch up", "look at the bucket", "pass", "look and pass"),
    by: fc.integer({ min: 1, max: 3 }),
  });
  const life = fc.array(fc.constantFrom("change", "change", "delete", "recreate"), { minLength: 1, maxLength: 12 });

  it("publish its history once, in order, and end with the current state", () => {
    fc.assert(
      fc.property(life, fc.array(step, { minLength: 10, maxLength: 60 }), (events, schedule) => {
        const moments = momentsOf(events);
        const states = runReplicas(moments, schedule);

        for (const [index, each] of states.entries()) {
          const before = states[index - 1];
          if (before === undefined) continue;
          expect(podRules.same(each, before)).toBe(false);
          expect(each.resourceVersion).toBeGreaterThanOrEqual(before.resourceVersion);
          if (each.uid === before.uid) expect(before.deleted).toBe(false);
        }
        const last = moments.at(-1)!;
        const end = states.at(-1);
        if ("uid" in last) expect(end).toMatchObject({ uid: last.uid, podIp: `ip-${last.version}`, deleted: false });
        else if (end !== undefined) expect(end.deleted).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  function momentsOf(events: readonly string[]): Moment[] {
    let version = 1;
    let uid = "uid-1";
    const moments: Moment[] = [{ uid, version }];
    for (const event of events) {
      const alive = "uid" in moments.at(-1)!;
      version += 1;
      if (event === "delete" && alive) moments.push({ version });
      else if (event === "recreate" && !alive) moments.push({ uid: (uid = `uid-${version}`), version });
      else if (event === "change" && alive) moments.push({ uid, version });
    }
    return moments;
  }

  type Scheduled = { readonly replica: number; readonly kind: string; readonly by: number };

  function runReplicas(moments: readonly Moment[], schedule: readonly Scheduled[]): PodState[] {
    const states: PodState[] = [];
    let bucket: PublishedState<PodState> | undefined;
    const replicas = [0, 1].map(() => ({ seen: -1, bucket }));

    const pass = (replica: (typeof replicas)[number]): void => {
      const moment = moments[replica.seen];
      if (moment === undefined) return;
      const mine =
        "uid" in moment
          ? [
              {
                key: KEY,
                createdAtMs: 0,
                state: state({ uid: moment.uid, resourceVersion: moment.version, podIp: `ip-${moment.version}` }),
              },
            ]
          : [];
      const steps = planPublish(
        {
          nowMs: NOW,
          sight: { version: moment.version, listedAtMs: 0 },
          desired: mine,
          published: replica.bucket === undefined ? [] : [replica.bucket],
        },
        { keepDeletedMs: Infinity },
        podRules,
      );
      for (const planned of steps) {
        if (planned.kind === "forget" || planned.expectedRevision !== bucket?.revision) continue;
        bucket = { key: KEY, state: planned.state, revision: (bucket?.revision ?? 0) + 1 };
        states.push(planned.state);
      }
    };

    for (const each of schedule) {
      const replica = replicas[each.replica]!;
      if (each.kind === "catch up") replica.seen = Math.min(moments.length - 1, replica.seen + each.by);
      if (each.kind.startsWith("look")) replica.bucket = bucket;
      if (each.kind.endsWith("pass")) pass(replica);
    }
    for (const replica of replicas) {
      replica.seen = moments.length - 1;
      replica.bucket = bucket;
      pass(replica);
    }
    return states;
  }
});

describe("the end of an object", () => {
  it.each<[string, Partial<PodState> | undefined, boolean]>([
    ["nothing", undefined, false],
    ["the thing itself", {}, false],
    ["the thing as deleted", { deleted: true }, true],
    ["an earlier thing", { uid: "u0", resourceVersion: 9 }, false],
    ["another thing of the same version", { uid: "u0", resourceVersion: 10 }, true],
    ["a later thing", { uid: "u2", resourceVersion: 11 }, true],
  ])("is published when the record shows %s: %s, %s", (_title, part, expected) => {
    expect(isEndPublished(state(), part === undefined ? undefined : state(part))).toBe(expected);
  });
});

describe("a sight", () => {
  it.each([
    [10, 0, true],
    [9, 0, false],
    [9, MINUTE, false],
    [9, MINUTE + 1, true],
  ])(
    "of version %d, listed %d ms later, goes beyond an observation at version 10: %s",
    (version, laterMs, expected) => {
      expect(isObservedLater({ version, listedAtMs: NOW + laterMs }, 10, NOW)).toBe(expected);
    },
  );
});

describe("another object of the name", () => {
  const other = { uid: "u2", resourceVersion: 10, createdAtMs: NOW - 1000 };

  it("is published when it is newer by version, by creation or by a later list, and not when it is equal", () => {
    expect(plan({ seen: other, published: {} })).toEqual([]);
    expect(plan({ seen: { ...other, resourceVersion: 11 }, published: {} })).toHaveLength(1);
    expect(plan({ seen: { ...other, createdAtMs: NOW - 999 }, published: {} })).toHaveLength(1);
    expect(plan({ seen: other, published: {}, listedAtMs: NOW - 1000 + MINUTE })).toEqual([]);
    expect(plan({ seen: other, published: {}, listedAtMs: NOW - 999 + MINUTE })).toHaveLength(1);
  });
});

it("forgets the state that was deleted first", () => {
  const rows = [
    { deleted: true, observedAtMs: 300 },
    { deleted: true, observedAtMs: 200 },
    { deleted: false, observedAtMs: 100 },
  ].map((part) => ({ key: KEY, state: state(part), revision: 1 }));
  expect(nextForgetMs(rows, { keepDeletedMs: KEEP })).toBe(200 + KEEP);
  expect(nextForgetMs([], { keepDeletedMs: KEEP })).toBe(Infinity);
});
