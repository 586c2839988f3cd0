import { describe, expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import { buildMachine, buildPod, holder, inLedger } from "../../test/build-sightings.ts";
import type { NodePhase, ScaledNode } from "./node.ts";
import { planNodeClaims, type ClaimsSnapshot } from "./plan-node-claims.ts";
import type { PodOnNode } from "./sightings.ts";

const other = { owner: { kind: "session", id: "s" }, reservationId: "2" };
const podOf = (owner: PodOnNode["owner"]) => new Map([["k-n", [buildPod("p", { owner })]]]);
const none = new Map<string, readonly PodOnNode[]>();

function plan(node: ScaledNode, parts: Partial<ClaimsSnapshot>, reuse = true) {
  const [step, ...more] = planNodeClaims({
    nowMs: 1000,
    nodes: [node],
    policies: new Map([["a", buildPolicy({ reuse })]]),
    machines: inLedger(),
    pods: none,
    ...parts,
  });
  expect(more).toEqual([]);
  return step;
}

const claim = (reached: boolean) => ({ ...holder, reached });
const node = (phase: NodePhase, reached?: boolean) =>
  buildNode("n", { status: { phase, claim: reached === undefined ? undefined : claim(reached) } });
const free = inLedger(buildMachine("n", "FREE"));
const held = inLedger(buildMachine("n", "HELD", holder));
const sharedBy = (...sharedHolders: (typeof holder | typeof other)[]) =>
  inLedger(buildMachine("n", "SHARED", undefined, { sharedHolders }));
const heldByOther = inLedger(buildMachine("n", "HELD", other));

describe("the life cycle of claims", () => {
  it.each([
    ["claims a granted node", node("Available"), held, none, "granted", "Claimed"],
    [
      "claims a granted node that is cordoned",
      node("Available"),
      inLedger(buildMachine("n", "CORDONED", holder)),
      none,
      "granted",
      "Claimed",
    ],
    ["claims a node that is granted in parts", node("Available"), sharedBy(holder, other), none, "granted", "Claimed"],
    [
      "keeps its claim while another part is granted",
      node("Claimed", true),
      sharedBy(other, holder),
      none,
      undefined,
      undefined,
    ],
    [
      "replaces a holder that released its part",
      node("Claimed", true),
      sharedBy(other),
      none,
      "granted-anew",
      undefined,
    ],
    [
      "records a pod of any holder",
      node("Claimed", false),
      sharedBy(holder, other),
      podOf(other.owner),
      "reached",
      undefined,
    ],
    [
      "leaves a node unchanged that foreign pods use and no owner holds",
      buildNode("n", { status: { served: true } }),
      inLedger(buildMachine("n", "FOREIGN_USE")),
      none,
      undefined,
      undefined,
    ],
    ["leaves a free node unchanged", node("Available"), free, none, undefined, undefined],
    [
      "records that a pod of the holder reached the node",
      node("Claimed", false),
      held,
      podOf(holder.owner),
      "reached",
      undefined,
    ],
    [
      "does not count the pod of another owner as the holder's",
      node("Claimed", false),
      held,
      podOf(other.owner),
      undefined,
      undefined,
    ],
    ["records a grant that followed another", node("Claimed", true), heldByOther, none, "granted-anew", undefined],
    [
      "makes a released node Available if no pod reached it",
      node("Claimed", false),
      free,
      none,
      "returned-unused",
      "Available",
    ],
    ["cleans a released node that a pod reached", node("Claimed", true), free, none, "returned", "Cleaning"],
    ["cleans a node that the ledger does not know", node("Claimed", true), inLedger(), none, "returned", "Cleaning"],
    ["waits for the holder's pods", node("Cleaning", true), free, podOf(holder.owner), undefined, undefined],
    [
      "waits while the ledger reports OCCUPIED",
      node("Cleaning", true),
      inLedger(buildMachine("n", "OCCUPIED")),
      none,
      undefined,
      undefined,
    ],
    ["reuses a clean node", node("Cleaning", true), free, none, "clean", "Available"],
    [
      "reuses a node that is granted again already",
      node("Cleaning", true),
      heldByOther,
      podOf(holder.owner),
      "clean",
      "Available",
    ],
  ] as const)("%s", (...[, before, machines, pods, because, phase]) => {
    const step = plan(before, { machines, pods });
    expect([step?.because, step?.phase]).toEqual([because, phase]);
  });

  it.each([
    ["session", "session-part/bench--0a1b2c3d-2"],
    ["job", "job/bench--2"],
  ])("records that pods of the %s have reached the node whose part %s holds", (owner, part) => {
    const [kind = "", id = ""] = part.split("/");
    const holdsPart = { owner: { kind, id }, reservationId: "3" };
    const machines = inLedger(buildMachine("n", "HELD", holdsPart));
    const step = plan(node("Available"), { machines, pods: podOf({ kind: owner, id: "bench" }) });
    expect(step?.status?.claim).toEqual({ ...holdsPart, reached: true });
  });

  it("records the holder of a node, and removes it when the node is free again", () => {
    expect(plan(node("Available"), { machines: held, pods: podOf(holder.owner) })?.status).toEqual({
      served: true,
      claim: claim(true),
    });
    expect(plan(node("Claimed", true), { machines: heldByOther })?.status).toEqual({
      claim: { ...other, reached: true },
    });
    expect(plan(node("Claimed", false), { machines: free })?.status).toMatchObject({
      claim: undefined,
      boundTo: undefined,
      idleSinceMs: undefined,
    });
  });

  it("releases a node granted in parts once no part of it is held", () => {
    expect(plan(node("Claimed", true), { machines: sharedBy() })).toMatchObject({
      because: "returned",
      phase: "Cleaning",
    });
  });

  it("records once that foreign pods use a node", () => {
    const machines = inLedger(buildMachine("n", "FOREIGN_USE"));
    expect(plan(node("Available"), { machines })).toMatchObject({ because: "occupied", status: { served: true } });
  });

  it("records once that pods run on a node without a holder", () => {
    const occupied = inLedger(buildMachine("n", "OCCUPIED"));
    expect(plan(node("Available"), { machines: occupied })).toMatchObject({
      because: "occupied",
      status: { served: true },
    });
    expect(plan(node("Available"), { machines: free, pods: podOf(undefined) })?.because).toBe("occupied");
    expect(plan(buildNode("n", { status: { served: true } }), { machines: occupied })).toBeUndefined();
  });

  it("concludes nothing about nodes missing from an incomplete list", () => {
    expect(plan(node("Claimed", true), { machines: { ...inLedger(), complete: false } })).toBeUndefined();
  });

  it("ends a used node of a pool with `reuse: false`, but not one that no pod reached", () => {
    expect(plan(node("Cleaning", true), { machines: free }, false)?.spec?.terminate?.code).toBe("RETURNED");
    expect(plan(node("Claimed", false), { machines: free }, false)?.phase).toBe("Available");
  });

  it("ends a node that was used once, granted again during its cleaning, and released before that was observed", () => {
    const again = node("Available", true);
    expect(plan(again, { machines: free }, false)?.spec?.terminate?.code).toBe("RETURNED");
    expect(plan(again, { machines: free })).toMatchObject({ because: "clean", status: { claim: undefined } });
    expect(plan(again, { machines: heldByOther })?.status?.claim).toEqual({ ...other, reached: true });
  });

  it("ends a node on which the holder's pods stay forever", () => {
    const pods = podOf(holder.owner);
    expect(plan(node("Cleaning", true), { machines: free, pods, nowMs: 119_999 })).toBeUndefined();
    expect(plan(node("Cleaning", true), { machines: free, pods, nowMs: 120_000 })).toMatchObject({
      because: "never-clean",
      spec: { terminate: { code: "RETURNED" } },
    });
  });

  it("leaves nodes that must end to the reaper", () => {
    const terminate = { code: "IDLE", message: "", atMs: 0, drainUntilMs: 0 } as const;
    expect(plan(buildNode("n", { spec: { terminate } }), { machines: held })).toBeUndefined();
  });
});
