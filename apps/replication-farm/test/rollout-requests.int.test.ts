import { FaultError } from "@muster/faults";
import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { makeHandlers } from "../src/adapters/handlers.ts";
import { makeRollout, makeSpec, makePlacedSet } from "./a-set.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";
import { applySet } from "../src/apply-set.ts";
import { requireSet, type RequestDeps } from "../src/request-deps.ts";
import { enableSet, holdTransfers, removeSet, scaleSet, transferNode } from "../src/requests.ts";
import { changeRollout, createRollout, type CreateRolloutRequest } from "../src/rollout-requests.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

function requestDeps({ sets, rollouts: rolls, world }: PassWorld): RequestDeps {
  return {
    now: () => 1,
    newId: () => crypto.randomUUID(),
    sets,
    rollouts: rolls,
    world,
    auditLog: { page: () => Promise.resolve({ items: [], before: undefined }), publish: () => Promise.resolve() },
    templateHash: () => "h1",
    transferMs: 1,
    check: () => Promise.resolve(),
    pools: () => Promise.resolve(["gpu"]),
    farmOf: () => "",
  };
}

async function askedOf(deps: RequestDeps, sets: readonly ReplicaSet[], request: Partial<CreateRolloutRequest>) {
  for (const set of sets) await deps.sets.create(set.name, set);
  return createRollout(deps, {
    requestId: "q",
    oldSet: "web",
    newSet: "web-2",
    spec: undefined,
    template: "",
    replicasDesired: undefined,
    minimum: 1,
    leaveOld: false,
    delayMs: 0,
    by: "ann",
    ...request,
  });
}

const web = makePlacedSet(["a", "b"]);
const CONTEXT = { signal: new AbortController().signal, deadlineMs: Infinity, pageBytes: Infinity };

describe("a request for a rolling update", () => {
  it("is refused for a set of another pod id, also an existing one", async () => {
    await using world = await openPassWorld();
    const db = makePlacedSet([], { name: "db", spec: makeSpec({ podId: "db" }) });
    await expect(askedOf(requestDeps(world), [web, db], { newSet: "db" })).rejects.toThrow(/pod id "db".*"web"/);
    expect(await world.rollouts.get("db")).toBeUndefined();
  });

  it("continues a canary to the sum of both sets, by default", async () => {
    await using world = await openPassWorld();
    const canary = makePlacedSet(["c"], { name: "web-2" });
    const { record } = await askedOf(requestDeps(world), [web, canary], {});
    expect(record).toMatchObject({ target: 3 });
  });
});

it("a rolling update of a set that another one is about to use is refused", async () => {
  await using world = await openPassWorld();
  await world.rollouts.create("web-9", makeRollout({ id: "web-9", newSet: "web-9", phase: "CREATING" }));
  await until("the other one is seen", () => world.world.rollouts().length === 1);
  const fresh = makePlacedSet([], { name: "web-2" });
  await expect(askedOf(requestDeps(world), [web, fresh], {})).rejects.toThrow(/web is in rolling update web-9 already/);
});

describe("a set in a rolling update", () => {
  const request = { requestId: "d", name: "web-2", keepPods: false, by: "" };
  const fresh = makePlacedSet(["c"], { name: "web-2", rollout: "web-2", fence: 0 });

  it("is deleted only by force, which ends the update and leaves the other set its replicas", async () => {
    await using world = await openPassWorld();
    const deps = requestDeps(world);
    for (const set of [{ ...web, rollout: "web-2" }, fresh]) await world.sets.create(set.name, set);
    await world.rollouts.create("web-2", makeRollout({ oldDesired: 2, newDesired: 1 }));
    await until("the update is seen", () => world.world.rollouts().length === 1);
    await expect(removeSet(deps, { ...request, force: false })).rejects.toThrow(/in rolling update web-2/);
    await removeSet(deps, { ...request, force: true });
    await until("the update and the set are gone", async () => (await world.pass("web-2")).kind === "gone");
    expect(await world.rollouts.get("web-2")).toBeUndefined();
    const left = await world.sets.get("web");
    expect(left).toMatchObject({
      record: { rollout: undefined, spec: { replicasDesired: 2 }, placements: web.placements },
    });
  });

  it("is deleted by force also if the record of the update is lost", async () => {
    await using world = await openPassWorld();
    await world.sets.create("web-2", fresh);
    await world.pass("web-2");
    await removeSet(requestDeps(world), { ...request, force: true });
    await until("the set is gone", async () => (await world.pass("web-2")).kind === "gone");
    expect(await world.sets.get("web-2")).toBeUndefined();
  });
});

it("a request about a set is audited with its client", async () => {
  await using world = await openPassWorld();
  const deps = requestDeps(world);
  const asked = { requestId: "q", name: "web", by: "ann" };
  await world.sets.create("web", web);
  await scaleSet(deps, { ...asked, replicasDesired: 3, expected: undefined });
  await enableSet(deps, { ...asked, enabled: false });
  await holdTransfers(deps, { ...asked, hold: true, because: "repair" });
  await holdTransfers(deps, { ...asked, hold: false, because: "" });
  await transferNode(deps, { ...asked, node: "a", newNode: "" });
  await removeSet(deps, { ...asked, keepPods: false, force: true });
  const { outbox } = (await requireSet(deps, "web")).record;
  expect(outbox.map(({ eventType }) => eventType)).toEqual([
    "SCALED",
    "DISABLED",
    "TRANSFERS_HELD",
    "TRANSFERS_RELEASED",
    "NODE_TRANSFER_START",
    "DELETED",
  ]);
  for (const { details } of outbox) expect(JSON.parse(details)).toMatchObject({ by: "ann" });
});

it("a missing pool is refused, and the ledger's pools are named", async () => {
  await using world = await openPassWorld();
  const deps = requestDeps(world);
  const asked = (pool: string) => ({
    ...{ requestId: "q", name: "web", by: "", replace: false, dryRun: true },
    spec: makeSpec({ pool, nodeSelector: "" }),
  });
  await expect(applySet(deps, asked("gpus"))).rejects.toThrow(/there is no pool "gpus": the ledger has gpu/);
  expect(await applySet(deps, asked("gpu"))).toMatchObject({ outcome: "CREATED" });
  const silent = { ...deps, pools: () => Promise.resolve(undefined) };
  expect(await applySet(silent, asked("gpus"))).toMatchObject({ outcome: "CREATED" });
});

it("a placement without a pod is explained", async () => {
  await using world = await openPassWorld();
  await world.sets.create("web", web);
  await world.putPod(web, 1);
  await until("the pod is seen", () => world.world.podsOf("web").size === 1);
  const { getReplicaSet } = makeHandlers(requestDeps(world));
  const request = new muster.farm.v1.GetReplicaSetRequest({ name: "web" });
  const { set } = await getReplicaSet(request, CONTEXT);
  expect(set?.replicas?.map(({ reason }) => reason)).toEqual(["", "NO_POD"]);
});

it("rolling updates are listed in pages", async () => {
  await using world = await openPassWorld();
  const ids = ["web-2", "web-3", "web-4"];
  for (const id of ids) await world.rollouts.create(id, makeRollout({ id, newSet: id }));
  await until("the updates are seen", () => world.world.rollouts().length === ids.length);
  const { listRolls } = makeHandlers(requestDeps(world));
  const list = async (after: string) => {
    const request = new muster.farm.v1.ListRollsRequest({ limit: 2, continue: after });
    return listRolls(request, CONTEXT);
  };
  const first = await list("");
  expect(first.rolls?.map(({ record }) => record?.id)).toEqual(["web-2", "web-3"]);
  const second = await list(first.continue ?? "");
  expect(second.rolls?.map(({ record }) => record?.id)).toEqual(["web-4"]);
  expect(second.continue).toBe("");
});

it("sets are listed in pages that fit into a reply", async () => {
  await using world = await openPassWorld();
  const names = ["a", "b", "c", "d"];
  const spec = makeSpec({ template: JSON.stringify({ spec: { hostname: "x".repeat(10_000) } }) });
  for (const name of names) await world.sets.create(name, makePlacedSet([], { name, spec }));
  await until("the sets are seen", () => world.world.sets().length === names.length);
  const { listReplicaSets } = makeHandlers(requestDeps(world));
  const pages: (string | null | undefined)[][] = [];
  let after = "";
  do {
    const request = new muster.farm.v1.ListReplicaSetsRequest({ continue: after });
    const { sets, continue: next } = await listReplicaSets(request, { ...CONTEXT, pageBytes: 25_000 });
    pages.push(sets?.map(({ record }) => record?.name) ?? []);
    after = next ?? "";
  } while (after !== "");
  expect(pages).toEqual([
    ["a", "b"],
    ["c", "d"],
  ]);
});

it("sets are listed by their labels, and a malformed selector is refused", async () => {
  await using world = await openPassWorld();
  const labels = { web: { team: "a" }, cache: { team: "b" }, proxy: { team: "a", tier: "low" } };
  for (const [name, of] of Object.entries(labels))
    await world.sets.create(name, makePlacedSet([], { name, spec: makeSpec({ labels: of }) }));
  await until("the sets are seen", () => world.world.sets().length === 3);
  const { listReplicaSets } = makeHandlers(requestDeps(world));
  const namesOf = async (labelSelector: string, after = "") => {
    const request = new muster.farm.v1.ListReplicaSetsRequest({ labelSelector, continue: after, limit: 1 });
    const { sets, continue: next } = await listReplicaSets(request, CONTEXT);
    return [sets?.map(({ record }) => record?.name), next];
  };
  expect(await namesOf("team=a")).toEqual([["proxy"], "proxy"]);
  expect(await namesOf("team=a", "proxy")).toEqual([["web"], ""]);
  expect(await namesOf("team,!tier,team!=a")).toEqual([["cache"], ""]);
  await expect(async () => namesOf("team in a")).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "labelSelector" },
  });
});

describe("a rolling update that has ended", () => {
  it("is kept until its audits are on the stream, also if both sets are gone", async () => {
    let isAway = true;
    const away = new FaultError({ code: "unavailable", dependency: "the stream", retryAfterMs: 0 });
    const publish = () => (isAway ? Promise.reject(away) : Promise.resolve());
    await using world = await openPassWorld({}, { auditLog: { publish } });
    const event = { eventType: "ROLLING_UPDATE_CREATION", details: "{}", timestampMs: 0, traceparent: "" } as const;
    const outbox = [{ ...event, id: "i", replicaSet: "web-2" }];
    const ids = ["web-2", "web-3"];
    await world.sets.create("web-2", makePlacedSet(["a", "b", "c"], { name: "web-2" }));
    for (const id of ids) await world.rollouts.create(id, makeRollout({ id, newSet: id, phase: "FINISHING", outbox }));
    await until("the updates are seen", () => world.world.rollouts().length === 2);
    for (const id of ids) {
      expect(await world.pass(id)).toMatchObject({ kind: "settled" });
      expect(await world.rollouts.get(id)).toMatchObject({ record: { outbox } });
    }
    isAway = false;
    for (const id of ids) {
      const hasEnded = async () => (await world.pass(id), (await world.rollouts.get(id)) === undefined);
      await until(`update ${id} has ended`, hasEnded);
    }
  });
});

describe("a reversed rolling update", () => {
  const changesOf = async (world: PassWorld) => {
    const deps = requestDeps(world);
    await deps.rollouts.create(
      "web-2",
      makeRollout({ phase: "RUNNING", oldDesired: 2, newDesired: 1, minimum: 2, fence: 0 }),
    );
    let count = 0;
    return async (word: string, minimum?: number) => {
      count += 1;
      const request = { requestId: `q${count}`, id: "web-2", change: word, minimum, by: "ann" };
      return (await changeRollout(deps, request)).record;
    };
  };

  it("goes back however often that is requested, forward again by its own command, and both trails name the user", async () => {
    await using world = await openPassWorld();
    const change = await changesOf(world);
    const back = await change("UNDO");
    expect(back).toMatchObject({ oldSet: "web-2", newSet: "web", undone: 1 });
    expect(await change("UNDO")).toEqual(back);
    const forward = await change("REDO");
    expect(forward).toMatchObject({ oldSet: "web", newSet: "web-2", undone: 2 });
    expect(await change("REDO")).toEqual(forward);
    const audits = forward.outbox.map(({ eventType, replicaSet, details }) => ({
      eventType,
      replicaSet,
      by: (JSON.parse(details) as { by: string }).by,
    }));
    expect(audits.map(({ by }) => by)).toEqual(["ann", "ann", "ann", "ann"]);
    expect(audits.map(({ eventType, replicaSet }) => `${eventType} ${replicaSet}`)).toEqual([
      "ROLLING_UPDATE_UNDO web-2",
      "ROLLING_UPDATE_UNDO web",
      "ROLLING_UPDATE_REDO web",
      "ROLLING_UPDATE_REDO web-2",
    ]);
  });

  it("continues with another minimum, unless that can never be kept", async () => {
    await using world = await openPassWorld();
    const change = await changesOf(world);
    await change("UNDO");
    expect(await change("UNDO", 0)).toMatchObject({ newSet: "web", undone: 1, minimum: 0 });
    await expect(change("UNDO", 9)).rejects.toThrow(/minimum_replicas/);
  });
});
