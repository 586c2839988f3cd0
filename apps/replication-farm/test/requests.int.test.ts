import type { V1Pod } from "@kubernetes/client-node";
import { attachNodes } from "@muster/devcluster";
import { muster, type FarmService } from "@muster/proto";
import type { Client } from "@muster/bus";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import {
  listAudits,
  openFarmWorld,
  isMissing,
  listNodes,
  waitUntilReady,
  waitForSettled,
  buildSpec,
  buildTemplate,
  type FarmWorld,
  PODS,
} from "./farm-world.ts";

const { ROLL_PHASE_PAUSED, ROLL_PHASE_RUNNING } = muster.farm.v1.RollPhase;
const PATIENT = { timeoutMs: 90_000, everyMs: 100 };

describe.each(API_SERVERS)("requests about replica sets on $title", { timeout: 300_000 }, ({ skip, start }) => {
  let server: TestApiServer;
  let world: FarmWorld;
  let farms: Client<typeof FarmService>;
  const labelled = (label: string, ...nodes: string[]) =>
    Promise.all(nodes.map((node) => world.label(node, { [label]: "yes" })));
  const apply = (
    name: string,
    spec: ReturnType<typeof buildSpec>,
    more: { replace?: boolean; dryRun?: boolean } = {},
  ) => farms.applyReplicaSet({ requestId: name, name, spec, ...more });
  const audits = (name: string) => listAudits(world, name);
  const settledOn = (name: string, ...nodes: string[]) =>
    until(
      `${name} is on ${nodes.join()}`,
      async () => {
        const set = await waitForSettled(world, name, nodes.length);
        return listNodes(set).join() === nodes.join() && set;
      },
      PATIENT,
    );
  const isGone = (name: string) => until(`${name} is gone`, () => isMissing(farms.getReplicaSet({ name })), PATIENT);
  const hasEnded = (id: string) => until(`update ${id} has ended`, () => isMissing(farms.getRoll({ id })), PATIENT);

  beforeAll(async () => {
    if (skip) return;
    server = await start();
    world = await openFarmWorld(server, 4);
    ({ farms } = world);
    await world.startFarm();
    await waitUntilReady(world);
  }, 300_000);

  afterAll(async () => {
    if (!skip) await world[Symbol.asyncDispose]();
  });

  it.skipIf(skip)("no transfer begins during a hold, and the next one does after it", async () => {
    await labelled("held", "n-0", "n-1");
    await apply("held", buildSpec("held=yes", 1));
    await apply("witness", buildSpec("held=yes", 1));
    await settledOn("held", "n-0");
    await settledOn("witness", "n-0");
    const hold = { requestId: "h1", name: "held", hold: true, by: "ann", because: "the disk is copied" };
    await expect(farms.holdTransfers({ ...hold, by: "" })).rejects.toThrow(/state who/);
    const { set } = await farms.holdTransfers(hold);
    expect(set?.record?.transfersHeld).toMatchObject({ by: "ann", because: "the disk is copied" });
    expect((await farms.holdTransfers({ ...hold, requestId: "h2" })).set?.record?.requestId).toBe("h1");
    await expect(farms.transferNode({ requestId: "t", name: "held", node: "n-0" })).rejects.toThrow(
      /held by ann: the disk is copied/,
    );
    await world.label("n-0", { held: null });
    // The one farm that there is has then seen that the node is no longer eligible.
    await settledOn("witness", "n-1");
    const { set: waiting } = await farms.getReplicaSet({ name: "held" });
    expect(listNodes(waiting ?? {})).toEqual(["n-0"]);
    expect(waiting?.record?.transfer).toBeUndefined();
    expect(waiting?.replicas[0]).toMatchObject({ node: "n-0", eligible: false });

    await farms.holdTransfers({ requestId: "h3", name: "held", hold: false });
    await settledOn("held", "n-1");
  });

  it.skipIf(skip)("a node is left when a user requests it, for the first free one or the named one", async () => {
    await labelled("asked", "n-0", "n-1", "n-2");
    await apply("asked", buildSpec("asked=yes", 1));
    await settledOn("asked", "n-0");
    const [before] = await world.pods("asked");
    await farms.transferNode({ requestId: "t1", name: "asked", node: "n-0" });
    await settledOn("asked", "n-1");
    await farms.transferNode({ requestId: "t2", name: "asked", node: "n-1", newNode: "n-2" });
    await settledOn("asked", "n-2");
    await until("one pod is left", async () => (await world.pods("asked")).length === 1, PATIENT);
    expect((await world.pods("asked"))[0]?.metadata?.uid).not.toBe(before?.metadata?.uid);
    expect(await audits("asked")).toContain("NODE_TRANSFER_START");
    const { records } = await farms.listAudit({ name: "asked" });
    const moves = records
      .filter(({ eventType }) => eventType === "NODE_TRANSFER_COMPLETION")
      .map(({ eventDetails }) => JSON.parse(eventDetails) as object);
    expect(moves).toMatchObject([
      { old_node: "n-0", new_node: "n-1" },
      { old_node: "n-1", new_node: "n-2" },
    ]);

    const ask = { requestId: "t3", name: "asked", node: "n-2" };
    await expect(farms.transferNode({ ...ask, node: "n-0" })).rejects.toThrow(/"n-0" has no replica of asked/);
    await expect(farms.transferNode({ ...ask, newNode: "n-3" })).rejects.toThrow(/"n-3" cannot be taken/);
    await expect(farms.transferNode({ ...ask, newNode: "n-2" })).rejects.toThrow(/"n-2" cannot be taken/);
    await expect(farms.transferNode({ ...ask, name: "missing" })).rejects.toThrow(/does not exist/);
  });

  it.skipIf(skip)("an update is paused, resumed and undone, and no other owner scales its sets", async () => {
    await labelled("paused", "n-0", "n-1", "n-2");
    await apply("p-old", buildSpec("paused=yes", 3, { podId: "paused" }));
    await waitForSettled(world, "p-old", 3);
    const roll = { requestId: "r", oldSet: "p-old", newSet: "p-new", templateJson: buildTemplate("2") };
    for (const minimumReplicas of [3, 4])
      await expect(farms.createRoll({ ...roll, minimumReplicas })).rejects.toThrow(/minimum_replicas/);
    await farms.createRoll({ ...roll, minimumReplicas: 2, rollDelayMs: 3_600_000 });
    // One step is made at once, and the next one is an hour away.
    await waitForSettled(world, "p-new", 1);
    await waitForSettled(world, "p-old", 2);
    const change = (requestId: string, word: string) => farms.changeRoll({ requestId, id: "p-new", change: word });
    await expect(change("c0", "STOP")).rejects.toThrow(/PAUSE, RESUME, UNDO, REDO/);
    expect((await change("c1", "PAUSE")).roll?.record?.phase).toBe(ROLL_PHASE_PAUSED);
    await until(
      "the update reports where it stands",
      async () => {
        const { roll: now } = await farms.getRoll({ id: "p-new" });
        return now?.oldCurrent === 2 && now.newCurrent === 1 && now.waitingBecause === "it is paused";
      },
      PATIENT,
    );
    for (const name of ["p-old", "p-new"]) {
      const refused = /is in rolling update p-new/;
      await expect(farms.scaleReplicaSet({ requestId: "s", name, replicasDesired: 1 })).rejects.toThrow(refused);
      await expect(farms.deleteReplicaSet({ requestId: "s", name })).rejects.toThrow(refused);
      await expect(farms.transferNode({ requestId: "s", name, node: "n-0" })).rejects.toThrow(refused);
    }
    expect((await change("c2", "RESUME")).roll?.record?.phase).toBe(ROLL_PHASE_RUNNING);
    await change("c3", "UNDO");
    const again = await change("c3", "UNDO").catch((error: unknown) => error);
    // A repeated request is the same one, unless it has taken effect already.
    if (again instanceof Error) expect(again.message).toMatch(/does not exist/);
    else expect(again).toMatchObject({ roll: { record: { undone: 1, oldSet: "p-new", newSet: "p-old" } } });
    await isGone("p-new");
    const set = await waitForSettled(world, "p-old", 3);
    expect(set.record?.spec?.replicasDesired).toBe(3);
    await hasEnded("p-new");
    expect(await audits("p-old")).toContain("ROLLING_UPDATE_COMPLETION");
    await expect(change("c4", "PAUSE")).rejects.toThrow(/does not exist/);
  });

  it.skipIf(skip)("a canary leaves the remaining replicas to the old set", async () => {
    await labelled("canary", "n-0", "n-1", "n-2");
    await apply("c-old", buildSpec("canary=yes", 3, { podId: "canary" }));
    await waitForSettled(world, "c-old", 3);
    const roll = { requestId: "r", oldSet: "c-old", newSet: "c-new", templateJson: buildTemplate("2") };
    await farms.createRoll({ ...roll, replicasDesired: 1, minimumReplicas: 0, leaveOld: true });
    await hasEnded("c-new");
    const [fresh, old] = [await waitForSettled(world, "c-new", 1), await waitForSettled(world, "c-old", 2)];
    expect([old, fresh].map(({ record }) => record?.spec?.replicasDesired)).toEqual([2, 1]);
    expect(new Set([...listNodes(old), ...listNodes(fresh)]).size).toBe(3);
  });

  it.skipIf(skip)("a daemon set has a pod on each node, including added ones, and none on removed ones", async () => {
    await labelled("each", "n-0", "n-1");
    await apply("each", buildSpec("each=yes", 0, { daemon: true }));
    await settledOn("each", "n-0", "n-1");
    await labelled("each", "n-2");
    await settledOn("each", "n-0", "n-1", "n-2");
    const machine = await attachNodes({
      kubeconfig: server.kubeconfig,
      pools: [{ name: "late", nodes: 1, labels: { each: "yes" } }],
      controlPlane: false,
      ...server.nodeOptions,
    });
    await settledOn("each", "late-0", "n-0", "n-1", "n-2");
    await machine[Symbol.asyncDispose]();
    await world.calls.delete({ apiVersion: "v1", plural: "nodes" }, "late-0");
    await settledOn("each", "n-0", "n-1", "n-2");
    await world.label("n-1", { each: null });
    await settledOn("each", "n-0", "n-2");

    const ask = { requestId: "s", name: "each" };
    await expect(farms.scaleReplicaSet({ ...ask, replicasDesired: 1 })).rejects.toThrow(/no number of replicas/);
    await expect(farms.transferNode({ ...ask, node: "n-0" })).rejects.toThrow(/make the node ineligible/);
    await expect(
      farms.createRoll({ requestId: "r", oldSet: "each", newSet: "each-2", templateJson: buildTemplate("2") }),
    ).rejects.toThrow(/apply the new template with `replace`/);

    await Promise.all(["n-0", "n-2"].map((node) => world.label(node, { each: null })));
    // The farm treats a selection without nodes as a mistake.
    const stuck = await until(
      "the set reports its trouble",
      async () => {
        const { set } = await farms.getReplicaSet({ name: "each" });
        return set?.record?.trouble?.code === "NO_ELIGIBLE_NODES" && set;
      },
      PATIENT,
    );
    // Between the two nodes' changes one of them may have been left.
    expect(listNodes(stuck).length).toBeGreaterThan(0);
    await labelled("each", "n-0", "n-2");
    await settledOn("each", "n-0", "n-2");
  });

  it.skipIf(skip)("a changed template is refused while pods run, unless they may be replaced", async () => {
    await labelled("renewed", "n-0", "n-1");
    await apply("renewed", buildSpec("renewed=yes", 2));
    await settledOn("renewed", "n-0", "n-1");
    const before = new Set((await world.pods("renewed")).map(({ metadata }) => metadata?.uid));
    const changed = buildSpec("renewed=yes", 2, { templateJson: buildTemplate("2") });
    await expect(apply("renewed", changed)).rejects.toThrow(/roll it to a new set, or use `replace`/);
    const { set, outcome } = await apply("renewed", changed, { replace: true, dryRun: true });
    expect(outcome).toBe("CHANGED");
    expect((await farms.getReplicaSet({ name: "renewed" })).set?.revision).toBe(set?.revision);
    await apply("renewed", changed, { replace: true });
    const versionOf = ({ spec }: V1Pod) => spec?.containers[0]?.env?.find(({ name }) => name === "V")?.value;
    await until(
      "all pods are of the new template",
      async () => {
        const pods = await world.pods("renewed");
        return pods.length === 2 && pods.every((pod) => versionOf(pod) === "2" && !before.has(pod.metadata?.uid));
      },
      PATIENT,
    );
    await settledOn("renewed", "n-0", "n-1");
    expect((await apply("renewed", changed)).outcome).toBe("UNCHANGED");
  });

  it.skipIf(skip)("a disabled set stays unchanged until it is enabled", async () => {
    await labelled("off", "n-0", "n-1");
    await apply("off", buildSpec("off=yes", 1));
    await settledOn("off", "n-0");
    await farms.enableReplicaSet({ requestId: "d", name: "off", enabled: false });
    await expect(
      farms.scaleReplicaSet({ requestId: "s1", name: "off", replicasDesired: 2, expected: 5 }),
    ).rejects.toMatchObject({ fault: { code: "conflict" } });
    await farms.scaleReplicaSet({ requestId: "s2", name: "off", replicasDesired: 2, expected: 1 });
    // The farm has then looked at it.
    expect((await audits("off")).at(-1)).toBe("SCALED");
    expect(listNodes((await farms.getReplicaSet({ name: "off" })).set ?? {})).toEqual(["n-0"]);
    await world.calls.delete(PODS, "off-1");
    const { replicas } = await until(
      "the farm has seen the deletion",
      async () => {
        const { set } = await farms.getReplicaSet({ name: "off" });
        return set?.replicas[0]?.reason === "NO_POD" ? set : undefined;
      },
      PATIENT,
    );
    expect(replicas[0]?.message).toMatch(/set is disabled/);
    // An audit follows the pass that saw the deletion.
    await farms.scaleReplicaSet({ requestId: "s3", name: "off", replicasDesired: 3 });
    await farms.scaleReplicaSet({ requestId: "s4", name: "off", replicasDesired: 2 });
    expect((await audits("off")).slice(-2)).toEqual(["SCALED", "SCALED"]);
    expect(await world.pods("off")).toEqual([]);
    await farms.enableReplicaSet({ requestId: "e", name: "off", enabled: true });
    await settledOn("off", "n-0", "n-1");
  });

  it.skipIf(skip)("the audit trail is listed in pages from its end", async () => {
    await apply("listed", buildSpec("listed=yes", 0));
    // The node selector matches nothing, so only the request has an effect.
    for (const [index, enabled] of [false, true, false, true].entries())
      await farms.enableReplicaSet({ requestId: `e${index}`, name: "listed", enabled });
    const whole = ["CREATED", "DISABLED", "ENABLED", "DISABLED", "ENABLED"];
    expect(await audits("listed")).toEqual(whole);
    const newest = await farms.listAudit({ name: "listed", limit: 2 });
    const older = await farms.listAudit({ name: "listed", limit: 10, continue: newest.continue });
    expect([newest, older].map(({ records }) => records.map(({ eventType }) => eventType))).toEqual([
      whole.slice(3),
      whole.slice(0, 3),
    ]);
    expect(older.continue).toBe("");
    await expect(farms.listAudit({ name: "listed", continue: "x" })).rejects.toThrow(/previous reply/);
  });
});
