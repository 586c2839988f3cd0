import fc from "fast-check";
import { expect, it } from "vitest";
import { JOB_KIND } from "../domain/kind-job.ts";
import { TFJOB_KIND } from "../domain/kind-tfjob.ts";
import { buildTypeSelector } from "../domain/member-labels.ts";
import {
  isRemembered,
  NEW_STATUS,
  UNCOUNTED_REASONS,
  type Condition,
  type JobStatus,
  type ReplicaStatus,
} from "../domain/job-status.ts";
import {
  buildProgressJson,
  buildPublicJson,
  readStatus,
  buildStatusJson,
  listReplicaTypes,
  type StatusShape,
} from "./status-json.ts";

const SHAPE: StatusShape = {
  statusKey: (type) => `${type.charAt(0).toUpperCase()}${type.slice(1)}`,
  selector: (type) => `type=${type}`,
  types: [
    { type: "chief", replicas: 1 },
    { type: "worker", replicas: 20 },
  ],
};

const small = fc.nat(5);
const seconds = fc.integer({ min: 0, max: 4e9 }).map((s) => s * 1000);
const condition = (type: Condition["type"]): fc.Arbitrary<Condition> =>
  fc.record({
    type: fc.constant(type),
    status: fc.constantFrom<"True" | "False">("True", "False"),
    reason: fc.string(),
    message: fc.string(),
    lastUpdateMs: seconds,
    lastTransitionMs: seconds,
  });
const restart = fc.oneof(
  fc.record({ number: fc.integer({ min: 1, max: 9 }), limit: fc.option(small, { nil: undefined }) }),
  fc.constant({ number: undefined, limit: undefined }),
);
const restarting: fc.Arbitrary<Condition> = fc
  .tuple(condition("Restarting"), fc.option(restart))
  .map(([plain, announced]) => (announced === null ? plain : { ...plain, restart: announced }));
const replica = ({ type, replicas }: { type: string; replicas: number }): fc.Arbitrary<ReplicaStatus> =>
  fc.record({
    type: fc.constant(type),
    active: small,
    ready: small,
    succeeded: small,
    failed: small,
    restarts: small,
    completedIndexes: fc.uniqueArray(fc.nat(replicas - 1)).map((indexes) => indexes.sort((a, b) => a - b)),
    counted: fc.array(fc.record({ pod: fc.uuid(), failures: fc.integer({ min: 1, max: 9 }) }), { maxLength: 3 }),
    uncounted: fc.array(
      fc.record({
        index: fc.nat(replicas - 1),
        pod: fc.uuid(),
        times: fc.integer({ min: 1, max: 9 }),
        atMs: seconds,
        because: fc.constantFrom(...UNCOUNTED_REASONS),
      }),
      { maxLength: 3 },
    ),
  });
const status: fc.Arbitrary<JobStatus> = fc.record({
  observedGeneration: small,
  conditions: fc.tuple(condition("Created"), condition("Running"), restarting).map((all) => [...all]),
  startMs: fc.option(seconds, { nil: undefined }),
  completionMs: fc.option(seconds, { nil: undefined }),
  replicas: fc.tuple(...SHAPE.types.map(replica)).map((all) => [...all]),
  attempt: small,
  attemptsCounted: small,
  replaced: fc.array(fc.constantFrom("chief-0", "worker-3")),
  regrouping: fc.boolean(),
  hasBeenReady: fc.boolean(),
  readyTimeouts: small,
  lastReadyTimeoutMs: fc.option(seconds, { nil: undefined }),
  failedMembers: fc.array(
    fc.record({
      type: fc.constantFrom("chief", "worker"),
      indexes: fc.uniqueArray(fc.nat(19), { minLength: 1 }).map((indexes) => indexes.sort((a, b) => a - b)),
      message: fc.string(),
    }),
    { maxLength: 3 },
  ),
});

/** Returns the status as the API server stores it: null fields of a merge patch are removed. */
function stored(json: unknown): ReturnType<typeof buildStatusJson> {
  return JSON.parse(JSON.stringify(json, (_key, value: unknown) => value ?? undefined)) as ReturnType<
    typeof buildStatusJson
  >;
}

it("reads what it wrote, in Muster's own resource", () => {
  fc.assert(
    fc.property(status, (before) => {
      expect(readStatus(stored(buildStatusJson(before, SHAPE)), undefined, SHAPE)).toEqual(before);
    }),
  );
});

it("reads what it wrote, in a resource without fields for restarts, indexes and attempts", () => {
  fc.assert(
    fc.property(status, (before) => {
      const replicas = before.replicas.map((each) => ({ ...each, ready: 0 }));
      const attempts = before.attempt === 0 ? { attemptsCounted: 0 } : {};
      const kept = { ...before, ...attempts, replicas };
      expect(readStatus(stored(buildPublicJson(kept, SHAPE)), buildProgressJson(kept), SHAPE)).toEqual(kept);
    }),
  );
});

it.each([
  ["restart 3 of 6 in 40 s: pod a failed", { number: 3, limit: 6 }],
  ["restart 1 in 5 s: pod a failed", { number: 1, limit: undefined }],
  ["a restart that does not count in 10 s: pod a failed", { number: undefined, limit: undefined }],
  ["restart 3 of 6: pod a failed", undefined],
  ["pods that were lost are recreated", undefined],
])("reads which restart an earlier version announced only in its message: %s", (message, announced) => {
  const json = { conditions: [{ type: "Restarting", status: "True", reason: "JobRestarting", message }] };
  expect(readStatus(json, undefined, SHAPE).conditions[0]?.restart).toEqual(announced);
  expect(readStatus(json, JSON.stringify({ attempt: 1 }), SHAPE).conditions[0]?.restart).toEqual(announced);
});

it("removes the announced restart from the stored status once none is announced", () => {
  expect(buildStatusJson(NEW_STATUS, SHAPE)).toMatchObject({ announcedRestart: null });
});

it("treats any other value as the status of a job without a pass", () => {
  expect(readStatus(undefined, undefined, SHAPE)).toEqual(NEW_STATUS);
  expect(readStatus({}, undefined, SHAPE)).toEqual(NEW_STATUS);
  const odd = {
    conditions: [
      { type: "Odd", status: "True" },
      { type: "Running", status: "Maybe" },
    ],
    startTime: "yesterday",
    restarts: -1,
  };
  expect(readStatus(odd, "no json", SHAPE)).toEqual(NEW_STATUS);
});

it.each<[string, unknown, Partial<ReplicaStatus>]>([
  ["no list of pods", { counted: 5 }, { counted: [] }],
  [
    "pods without a name",
    { counted: [null, 3, { failures: 2 }, { pod: "a", failures: 1 }] },
    { counted: [{ pod: "a", failures: 1 }] },
  ],
  ["failures that are no number", { counted: [{ pod: "a", failures: "2" }] }, { counted: [] }],
  ["a number in place of indexes", { completedIndexes: 3 }, { completedIndexes: [] }],
  ["a list in place of indexes", { completedIndexes: [3] }, { completedIndexes: [] }],
  ["entries that are null", { uncounted: [null] }, { uncounted: [] }],
  ["an index below 0", { uncounted: [{ index: -1, pod: "a", times: 1 }] }, { uncounted: [] }],
  ["no index", { uncounted: [{ pod: "a", times: 1 }] }, { uncounted: [] }],
  ["half a restart", { restarts: 1.5 }, { restarts: 0 }],
  ["restarts beyond the limit", { restarts: 1e300 }, { restarts: 0 }],
  ["restarts as text", { restarts: "7" }, { restarts: 0 }],
  ["a list in place of a type", [], {}],
  ["null in place of a type", null, {}],
])("ignores a malformed field: %s", (_, json, expected) => {
  const nothing = { restarts: 0, completedIndexes: [], counted: [], uncounted: [] };
  const annotated = readStatus({}, JSON.stringify({ replicas: { worker: json } }), SHAPE);
  const own = readStatus({ replicaStatuses: { Worker: json } }, undefined, SHAPE);
  for (const { replicas } of [annotated, own])
    expect(replicas.find(({ type }) => type === "worker")).toMatchObject({ ...nothing, ...expected });
});

it.each<[string, object, Partial<JobStatus>]>([
  ["a number of members", { replaced: 5 }, { replaced: [] }],
  ["members that are no text", { replaced: [5, "worker-3"] }, { replaced: ["worker-3"] }],
  ["a text for a boolean", { regrouping: "yes" }, { regrouping: false }],
  ["an attempt that no label holds", { attempt: 1e12 }, { attempt: 0 }],
  ["failed members without indexes", { failedMembers: [{ type: "worker" }, null] }, { failedMembers: [] }],
  ["failed members without a type", { failedMembers: [{ indexes: "1" }] }, { failedMembers: [] }],
  ["types in a list", { replicas: [{ worker: { restarts: 2 } }] }, {}],
])("ignores a malformed field of the gang: %s", (_, json, expected) => {
  expect(readStatus({}, JSON.stringify(json), SHAPE)).toMatchObject(expected);
  expect(readStatus(json, undefined, SHAPE)).toMatchObject(expected);
});

const NAMES = [
  ...["replicaStatuses", "replicas", "Worker", "worker", "conditions", "type", "status", "message", "startTime"],
  ...["restarts", "completedIndexes", "counted", "uncounted", "pod", "failures", "index", "times", "at", "because"],
  ...[
    "attempt",
    "replaced",
    "regrouping",
    "failedMembers",
    "indexes",
    "announcedRestart",
    "number",
    "limit",
    "toString",
  ],
];
/** Generates any JSON, mostly with names that the reader knows. */
const anyJson = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.jsonValue({ maxDepth: 0 }),
    fc.constantFrom("0-3", "True", "Running", "Restarting", "worker-1", "2026-01-01T00:00:00Z"),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie("value"), { maxKeys: 6 }),
  ),
})).value;

const annotation = fc.option(
  fc.oneof(
    anyJson.map((json) => JSON.stringify(json)),
    fc.string(),
  ),
  { nil: undefined },
);

it("never throws, and gives a status that survives a write and a read", () => {
  fc.assert(
    fc.property(anyJson, annotation, (json, progress) => {
      const read = readStatus(json, progress, SHAPE);
      const again = readStatus(stored(buildStatusJson(read, SHAPE)), undefined, SHAPE);
      expect(again).toEqual(read.replicas.length === 0 ? { ...read, replicas: again.replicas } : read);
    }),
    { numRuns: 1000 },
  );
});

it("keeps the history of a job whose spec is unreadable", () => {
  const all = (types: readonly string[]): StatusShape["types"] => types.map((type) => ({ type, replicas: 0 }));
  fc.assert(
    fc.property(status, (before) => {
      const own = stored(buildStatusJson(before, SHAPE));
      const shape = { ...SHAPE, types: all(listReplicaTypes(own, undefined)), total: 21 };
      expect(stored(buildStatusJson(readStatus(own, undefined, shape), shape))).toEqual(own);
      const others = stored(buildPublicJson(before, SHAPE));
      const progress = buildProgressJson(before);
      const kept = { ...SHAPE, types: all(listReplicaTypes(others, progress)) };
      expect(buildProgressJson(readStatus(others, progress, kept))).toEqual(progress);
    }),
  );
});

it("keeps completed indexes outside the spec, and no more than a job can have", () => {
  const read = (completedIndexes: string): readonly number[] | undefined =>
    readStatus({ replicaStatuses: { Worker: { completedIndexes } } }, undefined, SHAPE).replicas[1]?.completedIndexes;
  expect(read("0-2,19-21,x")).toEqual([0, 1, 2, 19, 20, 21]);
  expect(read("998-400000,700000-800000")).toEqual([998, 999]);
});

it("keeps the history of removed types, and no other field of them", () => {
  const shape = { ...SHAPE, types: SHAPE.types.slice(0, 1) };
  fc.assert(
    fc.property(status, (before) => {
      const own = readStatus(stored(buildStatusJson(before, SHAPE)), undefined, shape);
      const others = readStatus(stored(buildPublicJson(before, SHAPE)), buildProgressJson(before), shape);
      for (const { replicas } of [own, others]) {
        const [chief, worker] = replicas;
        expect(chief).toMatchObject({ type: "chief", restarts: before.replicas[0]?.restarts });
        const kept = before.replicas.filter(isRemembered).find(({ type }) => type === "worker");
        expect(worker).toEqual(kept && { ...kept, ready: replicas === own.replicas ? kept.ready : 0 });
      }
    }),
  );
});

it.each([
  [JOB_KIND, "worker", "muster.dev/group-name=muster.dev,muster.dev/job-name=train,muster.dev/replica-type=worker"],
  [
    TFJOB_KIND,
    "PS",
    "training.kubeflow.org/job-name=train,training.kubeflow.org/operator-name=tfjob-controller,training.kubeflow.org/replica-type=ps",
  ],
])("has the selector of the pods of a type: %o", (kind, key, selector) => {
  const type = key.toLowerCase();
  const shape = {
    statusKey: kind.statusKey,
    selector: (each: string) => buildTypeSelector(kind.labelKeys, { name: "train" }, each),
    types: [{ type, replicas: 2 }],
  };
  const replica = {
    type,
    active: 2,
    ready: 1,
    succeeded: 0,
    failed: 0,
    restarts: 0,
    completedIndexes: [],
    counted: [],
    uncounted: [],
  };
  const before = { ...NEW_STATUS, replicas: [replica] };
  expect(buildPublicJson(before, shape).replicaStatuses).toEqual({
    [key]: { active: 2, succeeded: 0, failed: 0, selector },
  });
  expect(buildStatusJson(before, shape).replicaStatuses?.[key]).toMatchObject({ selector });
});
