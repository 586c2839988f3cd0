import fc from "fast-check";
import { expect, it } from "vitest";
import { muster } from "@muster/proto";
import { TROUBLE_CODES, type ScaledNode } from "../domain/node.ts";
import { nodeCodec, toMachine, toWaiting } from "./messages.ts";

const text = fc.string({ minLength: 1, maxLength: 12 });
const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined });
const time = fc.integer({ min: 1, max: 4_000_000_000_000 });

const nodes: fc.Arbitrary<ScaledNode> = fc.record({
  name: text,
  spec: fc.record({
    pool: text,
    provider: text,
    instanceType: text,
    bootImage: fc.string(),
    spot: fc.boolean(),
    zone: optional(text),
    gpus: fc.nat(100),
    volumeGib: optional(fc.integer({ min: 1, max: 1000 })),
    privateIpOnly: fc.boolean(),
    pricePerHourMicros: optional(fc.integer({ min: 1, max: 1_000_000_000_000 })),
    terminate: optional(
      fc.record({
        code: fc.constantFrom("IDLE" as const, "UNHEALTHY" as const, "RESTARTED" as const, "REQUESTED" as const),
        message: fc.string(),
        atMs: time,
        drainUntilMs: time,
      }),
    ),
  }),
  status: fc.record({
    phase: fc.constantFrom("Creating" as const, "Created" as const, "Claimed" as const, "Terminated" as const),
    phaseSinceMs: time,
    createdAtMs: time,
    instanceId: optional(text),
    kubernetesNode: optional(text),
    addresses: fc.array(text, { maxLength: 3 }),
    boundTo: optional(text),
    served: fc.boolean(),
    claim: optional(
      fc.record({ owner: fc.record({ kind: text, id: text }), reservationId: text, reached: fc.boolean() }),
    ),
    unhealthySinceMs: optional(time),
    idleSinceMs: optional(time),
    drainingSinceMs: optional(time),
    term: fc.nat(),
    trouble: optional(fc.record({ code: fc.constantFrom(...TROUBLE_CODES), message: text })),
  }),
});

it("preserves every record", () => {
  fc.assert(
    fc.property(nodes, (node) => {
      expect(nodeCodec.decode(nodeCodec.encode(node))).toEqual(node);
    }),
  );
});

it("refuses an unknown phase, and ends a node for an unknown reason", () => {
  const { NodeRecord } = muster.node.v1;
  expect(() => nodeCodec.decode(NodeRecord.encode({ name: "n" }).finish())).toThrow("unknown phase: 0");
  const phase = muster.node.v1.NodePhase.NODE_PHASE_AVAILABLE;
  const later = NodeRecord.encode({ name: "n", phase, spec: { terminate: { code: "LATER", message: "m" } } });
  expect(nodeCodec.decode(later.finish()).spec.terminate).toMatchObject({ code: "REQUESTED", message: "m" });
});

it.each([
  ["DRAIN_STALLS", "the drain stalls: pod a/b is not evicted", "DRAIN_STALLS"],
  ["", "none left", "UNKNOWN"],
  ["LATER", "the drain stalls: m", "UNKNOWN"],
])("reads a trouble with the code %j and the text %j as %s", (troubleCode, message, code) => {
  const phase = muster.node.v1.NodePhase.NODE_PHASE_CLAIMED;
  const bytes = muster.node.v1.NodeRecord.encode({ name: "n", phase, trouble: message, troubleCode }).finish();
  expect(nodeCodec.decode(bytes).status.trouble).toEqual({ code, message });
});

it("reads the topology of a waiting reservation, if it has one", () => {
  const { Reservation } = muster.reservation.v1;
  const key = "topology.kubernetes.io/zone";
  expect(toWaiting(Reservation.create({ topology: key }))).toMatchObject({ topology: key });
  expect(toWaiting(Reservation.create({}))).not.toHaveProperty("topology");
});

it("treats no machine with an unknown standing as free", () => {
  const standingOf = (standing: string | undefined): string =>
    toMachine(muster.reservation.v1.MachineState.create({ node: "k-n", pool: "a", standing })).standing;
  for (const standing of ["FREE", "SHARED", "FOREIGN_USE"]) expect(standingOf(standing)).toBe(standing);
  for (const standing of ["free", "RESERVED", "", undefined]) expect(standingOf(standing)).toBe("UNKNOWN");
});

it("reads the holders of parts of a machine, and its free amounts", () => {
  const { MachineState } = muster.reservation.v1;
  const owner = { kind: "job", id: "j" };
  const message = MachineState.encode({
    ...{ node: "k-n", pool: "a", standing: "SHARED" },
    sharedHolders: [{ owner, reservationId: "1" }, { reservationId: "2" }],
    allocatable: { cpu: 4000, memory: 2 ** 40 },
    free: { cpu: 1500 },
  }).finish();
  expect(toMachine(MachineState.decode(message))).toMatchObject({
    holder: undefined,
    sharedHolders: [{ owner, reservationId: "1" }],
    allocatable: new Map(Object.entries({ cpu: 4000, memory: 2 ** 40 })),
    free: new Map([["cpu", 1500]]),
  });
});

it("reads the standing of a tainted machine for work that tolerates its taints, and that for all work from an earlier ledger", () => {
  const { MachineState } = muster.reservation.v1;
  const taints = [{ key: "gpu", value: "", effect: "NoSchedule" }];
  const read = (message: muster.reservation.v1.MachineState.$Properties) =>
    toMachine(MachineState.decode(MachineState.encode({ node: "k-n", pool: "a", ...message }).finish()));
  expect(read({ standing: "CORDONED", toleratedStanding: "FREE", taints })).toMatchObject({
    standing: "CORDONED",
    toleratedStanding: "FREE",
    taints,
  });
  expect(read({ standing: "CORDONED" })).toMatchObject({ toleratedStanding: "CORDONED", taints: [] });
  expect(read({ standing: "FREE", toleratedStanding: "LATER" }).toleratedStanding).toBe("UNKNOWN");
});
