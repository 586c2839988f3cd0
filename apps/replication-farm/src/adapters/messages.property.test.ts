import { findFault } from "@muster/faults";
import { muster } from "@muster/proto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeRollout, makeSpec, makeTransfer, makePlacedSet } from "../../test/a-set.ts";
import type { AuditRecord, ReplicaSet, SetTrouble } from "../domain/replica-set.ts";
import type { Rollout } from "../domain/rollout.ts";
import { rolloutCodec, setCodec, toSpec } from "./messages.ts";

const whole = fc.nat();
const word = fc.stringMatching(/^[a-z0-9-]{1,12}$/);
const maybeWord = fc.option(word, { nil: undefined });

const trouble: fc.Arbitrary<SetTrouble> = fc.record({
  code: fc.constantFrom("TOO_FEW_NODES", "POD_REFUSED", "TRANSFER_FAILED"),
  message: fc.string(),
  sinceMs: whole,
});

const outbox: fc.Arbitrary<AuditRecord[]> = fc.array(
  fc.record({
    id: word,
    eventType: fc.constantFrom("CREATED", "NODE_TRANSFER_START"),
    details: fc.string(),
    timestampMs: whole,
    replicaSet: word,
    traceparent: fc.string(),
  }),
);

const spec = fc.record({
  podId: word,
  minReadySeconds: fc.nat(3600),
  template: fc.json(),
  nodeSelector: fc.constantFrom("", "disk=ssd", "zone in (a,b),!old"),
  pool: maybeWord,
  replicasDesired: fc.nat({ max: 1000 }),
  allocationStrategy: fc.constantFrom("static", "dynamic"),
  daemon: fc.constant(false),
  labels: fc.dictionary(word, word, { noNullPrototype: true }),
});

const set: fc.Arbitrary<ReplicaSet> = fc.record({
  name: word,
  uid: word,
  spec,
  disabled: fc.boolean(),
  placements: fc.array(
    fc.record({
      node: word,
      ordinal: fc.integer({ min: 1, max: 1e9 }),
      templateHash: fc.string(),
      sinceMs: whole,
      reservation: maybeWord,
    }),
  ),
  nextOrdinal: whole,
  machines: fc.array(
    fc.record({
      number: fc.integer({ min: 1, max: 1e9 }),
      pool: word,
      grant: fc.option(fc.record({ reservation: word, node: word }), { nil: undefined }),
      sinceMs: whole,
    }),
  ),
  nextMachine: fc.integer({ min: 1, max: 1e9 }),
  transfer: fc.option(
    fc.record({
      id: word,
      oldNode: word,
      newNode: maybeWord,
      deadlineMs: whole,
      startedAtMs: whole,
      because: fc.oneof(
        fc.constant({ code: "REQUESTED" as const }),
        fc.record({ code: fc.constant("NODE_INELIGIBLE" as const), detail: fc.string() }),
      ),
    }),
    { nil: undefined },
  ),
  transfersHeld: fc.option(fc.record({ by: word, because: fc.string(), atMs: whole }), { nil: undefined }),
  transferFailures: whole,
  transferNotBeforeMs: whole,
  rollout: maybeWord,
  deletion: fc.option(fc.record({ keepPods: fc.boolean(), atMs: whole }), { nil: undefined }),
  trouble: fc.option(trouble, { nil: undefined }),
  fence: whole,
  generation: whole,
  outbox,
  createdAtMs: whole,
  requestId: fc.string(),
  traceparent: fc.string(),
  sharesWith: fc.array(word, { maxLength: 3 }),
});

const roll: fc.Arbitrary<Rollout> = fc.record({
  id: word,
  oldSet: word,
  newSet: word,
  target: whole,
  undoTarget: whole,
  newBefore: whole,
  minimum: whole,
  leaveOld: fc.boolean(),
  delayMs: whole,
  oldDesired: whole,
  newDesired: whole,
  phase: fc.constantFrom("CREATING", "RUNNING", "PAUSED", "FINISHING"),
  lastStepAtMs: whole,
  createdAtMs: whole,
  fence: whole,
  undone: whole,
  trouble: fc.option(trouble, { nil: undefined }),
  outbox,
  requestId: fc.string(),
  traceparent: fc.string(),
  by: fc.string(),
});

describe("messages", () => {
  it("decode every set to its original", () => {
    fc.assert(
      fc.property(set, (each) => {
        expect(setCodec.decode(setCodec.encode(each))).toEqual({ record: each });
      }),
    );
  });

  it("decode every rolling update to its original", () => {
    fc.assert(
      fc.property(roll, (each) => {
        expect(rolloutCodec.decode(rolloutCodec.encode(each))).toEqual({ record: each });
      }),
    );
  });

  const { ReplicaSetRecord, ReplicaSetSpec } = muster.farm.v1;
  const stored = (change: (record: muster.farm.v1.ReplicaSetRecord.$Properties) => void): Uint8Array => {
    const record = ReplicaSetRecord.decode(setCodec.encode(makePlacedSet(["n1"])));
    change(record);
    return ReplicaSetRecord.encode(record).finish();
  };

  it.each([
    [
      "without a number of replicas",
      /replicas_desired: is missing/,
      stored(({ spec: s }) => s && delete s.replicasDesired),
    ],
    ["without a template", /template_json: is missing/, stored(({ spec: s }) => s && (s.templateJson = ""))],
    ["with an invalid selector", /not a label selector/, stored(({ spec: s }) => s && (s.nodeSelector = "a in ("))],
    ["without a spec", /no spec/, stored((record) => (record.spec = null))],
    [
      "of an unknown strategy",
      /allocation_strategy: 9/,
      stored(({ spec: s }) => s && Object.assign(s, { allocationStrategy: 9 })),
    ],
    ["with a trouble of a later version", /does not know/, stored((record) => (record.trouble = { code: "NEW" }))],
    ["that is no protobuf", /./, new Uint8Array([255, 1, 2])],
  ])("a record %s is unreadable, and no other one", (_title, reason, bytes) => {
    const decoded = setCodec.decode(bytes);
    expect("unreadable" in decoded && decoded.unreadable).toMatch(reason);
  });

  it.each([
    ["a request", "somebody asked for it", { code: "REQUESTED" }],
    ["a node", "it is cordoned", { code: "NODE_INELIGIBLE", detail: "it is cordoned" }],
  ])("the reason of a transfer that an earlier version wrote as text is read: %s", (_title, because, reason) => {
    const transfer = { id: "t", oldNode: "n1", because };
    const bytes = stored((record) => (record.transfer = transfer));
    expect(setCodec.decode(bytes)).toMatchObject({ record: { transfer: { because: reason } } });
  });

  it("an earlier version reads the text of a transfer's reason", () => {
    const bytes = setCodec.encode(makePlacedSet(["n1"], { transfer: makeTransfer("n1", undefined) }));
    expect(ReplicaSetRecord.decode(bytes).transfer?.because).toBe("somebody asked for it");
  });

  it.each([
    ["a set without a template", () => setCodec.encode(makePlacedSet(["n1"], { spec: makeSpec({ template: "" }) }))],
    ["a set without a uid", () => setCodec.encode(makePlacedSet(["n1"], { uid: "" }))],
    ["a rolling update without its old set", () => rolloutCodec.encode(makeRollout({ oldSet: "" }))],
  ])("%s could not be read back, and is not written", (_title, encode) => {
    expect(encode).toThrow(/the record: could not be read back, and is not written/);
  });

  it("a daemon set needs no number, and has none", () => {
    const daemon = makePlacedSet(["n1"], { spec: makeSpec({ daemon: true }) });
    expect(setCodec.decode(setCodec.encode(daemon))).toEqual({ record: daemon });
    expect(ReplicaSetRecord.decode(setCodec.encode(daemon)).spec?.replicasDesired).toBeUndefined();
  });

  it("the pod id is the name of the set by default", () => {
    const { ALLOCATION_STRATEGY_STATIC: allocationStrategy } = muster.farm.v1.AllocationStrategy;
    expect(
      toSpec("web", ReplicaSetSpec.create({ templateJson: "{}", replicasDesired: 0, allocationStrategy })),
    ).toMatchObject({
      podId: "web",
    });
  });

  it("a request without a number of replicas is invalid", () => {
    let fault;
    try {
      toSpec("web", ReplicaSetSpec.create({ templateJson: "{}" }));
    } catch (error) {
      fault = findFault(error);
    }
    expect(fault).toMatchObject({ code: "invalid_request", field: "spec.replicas_desired" });
  });

  it("a rolling update of an unknown phase is unreadable", () => {
    const message = muster.farm.v1.RollRecord.decode(rolloutCodec.encode(makeRollout()));
    Object.assign(message, { phase: 9 });
    expect(rolloutCodec.decode(muster.farm.v1.RollRecord.encode(message).finish())).toHaveProperty("unreadable");
  });
});
