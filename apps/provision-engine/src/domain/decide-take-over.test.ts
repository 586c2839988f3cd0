import { describe, expect, it } from "vitest";
import { makeLeaseRecord, makeOrder, withText } from "../../test/a-lease.ts";
import type { Admission } from "./decide-admission.ts";
import { decideReference, decideTakeOver, toReferenced } from "./decide-take-over.ts";
import type { LeaseRecord, LeasePhase } from "./lease.ts";
import { transitionLease } from "./transition-lease.ts";

const NOW = 2_000n;
const FENCE = 7;
const order = makeOrder({ id: "2-1", reference: "1-1" });

function decide(older: LeaseRecord, isSame = true, wanted = order): Admission | undefined {
  return decideReference(wanted, toReferenced(wanted, older, isSame), NOW);
}

describe("an order that refers to a lease", () => {
  it.each<[LeasePhase, Admission["kind"]]>([
    ["ORDERED", "later"],
    ["PROVISIONING", "later"],
    ["ACTIVE", "yes"],
    ["DECOMMISSIONING", "no"],
    ["ENDED", "no"],
    ["FAILED", "no"],
  ])("which is %s is admitted: %s", (phase, admit) => {
    expect(decide(makeLeaseRecord({ phase }))?.kind).toBe(admit);
  });

  it.each<[string, Admission | undefined, string]>([
    ["another user", decide(makeLeaseRecord({ order: { user: "other" } })), "is of another user"],
    [
      "another user, and is over",
      decide(makeLeaseRecord({ phase: "ENDED", order: { user: "other" } })),
      "is of another user",
    ],
    ["another engine", decide(makeLeaseRecord({ order: { engine: "two" } })), "is served by another engine"],
    [
      "another type",
      decide(makeLeaseRecord({ order: { type: "zdb" } })),
      "is of type zdb, and this order of type debug",
    ],
    ["other data", decide(makeLeaseRecord(), false), "was ordered with other data"],
    ["the past", decide(makeLeaseRecord({ expiresAtNs: NOW - 1n })), "is over"],
    ["a lease that is over", decide(makeLeaseRecord({ phase: "ENDED" })), "is ENDED"],
    ["an earlier heir", decide(makeLeaseRecord({ phase: "ENDED", heir: "3-1" })), "was taken over by lease 3-1"],
    ["an unreadable lease", decideReference(order, { kind: "unreadable", id: "1-1" }, NOW), "cannot be read"],
  ])("of %s is refused with the reason", (_what, verdict, because) => {
    const shown = verdict && withText(verdict);
    expect(shown).toMatchObject({ kind: "no", because: expect.stringContaining(because) as string });
    expect(shown?.because).toMatch(/^upgrade refused: lease 1-1 /);
  });

  it("that is unknown is decided as if it had no reference", () => {
    expect(decideReference(order, undefined, NOW)).toBeUndefined();
  });
});

describe("a lease that takes over the workload of another one", () => {
  const heir = (phase: LeasePhase) => makeLeaseRecord({ order, phase, takesOver: "1-1" });
  const step = (phase: LeasePhase, older: LeaseRecord | undefined, isSame = true) =>
    decideTakeOver(heir(phase), older && { record: older, isSame }, FENCE, NOW);
  const handed = transitionLease(makeLeaseRecord({ run: 3 }), { kind: "migrated", heir: "2-1" }, NOW).next;

  it("first has it handed over and then takes it, even if it ends meanwhile", () => {
    expect(step("PROVISIONING", makeLeaseRecord()).kind).toBe("hand-over");
    for (const phase of ["PROVISIONING", "DECOMMISSIONING"] as const)
      expect(step(phase, handed)).toMatchObject({ kind: "take", change: { madeFor: { id: "1-1", run: 3 } } });
  });

  it("keeps the names of the first of several leases", () => {
    const second = makeLeaseRecord({ heir: "2-1", phase: "ENDED", madeFor: { id: "0-1", run: 2 } });
    expect(step("PROVISIONING", second)).toMatchObject({ change: { madeFor: { id: "0-1", run: 2 } } });
  });

  it("is refused a workload that has ended, has another heir, or is missing", () => {
    for (const older of [
      undefined,
      makeLeaseRecord({ phase: "DECOMMISSIONING" }),
      makeLeaseRecord({ phase: "ENDED", heir: "3-1" }),
    ])
      expect(step("PROVISIONING", older).kind).toBe("refuse");
  });

  it("that ends without the workload leaves it, once no previous leader can hand it over", () => {
    expect(step("DECOMMISSIONING", makeLeaseRecord({ fence: FENCE - 1 })).kind).toBe("fence");
    expect(step("DECOMMISSIONING", makeLeaseRecord({ fence: FENCE })).kind).toBe("leave");
    expect(step("DECOMMISSIONING", undefined).kind).toBe("leave");
  });

  it("continues the count of exits", () => {
    const crashes = { sinceNs: 1n, exits: 2, pods: [{ pod: "p", exits: 2, lastNs: 1n }] };
    const older = transitionLease(makeLeaseRecord({ crashes }), { kind: "migrated", heir: "2-1" }, NOW).next;
    const taken = step("PROVISIONING", older);
    expect(taken.kind === "take" && transitionLease(heir("PROVISIONING"), taken.change, NOW).next).toMatchObject({
      crashes,
      takesOver: undefined,
      outbox: [{ eventType: "MIGRATED", message: "from lease 1-1" }],
    });
  });
});

it("ends the older lease with no feedback but its end", () => {
  const { next } = transitionLease(makeLeaseRecord(), { kind: "migrated", heir: "2-1" }, NOW);
  expect(next).toMatchObject({
    phase: "ENDED",
    heir: "2-1",
    ending: { cause: "MIGRATED", message: "to lease 2-1" },
    feedback: { result: false, deleted: true },
    outbox: [{ eventType: "MIGRATED", message: "to lease 2-1" }],
  });
});
