import { describe, expect, it } from "vitest";
import { aSpec, placedOn } from "../src/domain/a-set.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";
import type { RequestDeps } from "../src/requests.ts";
import { createRoll, type CreateRollRequest } from "../src/roll-requests.ts";
import { passWorld, type PassWorld } from "./pass-world.ts";

function requestDeps({ sets, rolls, world }: PassWorld): RequestDeps {
  return {
    now: () => 1,
    newId: () => crypto.randomUUID(),
    traceparent: () => "",
    sets,
    rolls,
    world,
    auditLog: { page: () => Promise.resolve({ items: [], before: undefined }), publish: () => Promise.resolve() },
    templateHash: () => "h1",
    transferMs: 1,
    check: () => Promise.resolve(),
    farmOf: () => "",
  };
}

async function askedOf(deps: RequestDeps, sets: readonly ReplicaSet[], request: Partial<CreateRollRequest>) {
  for (const set of sets) await deps.sets.create(set.name, set);
  return createRoll(deps, {
    requestId: "q",
    oldSet: "web",
    newSet: "web-2",
    spec: undefined,
    template: "",
    replicasDesired: undefined,
    minimum: 1,
    leaveOld: false,
    delayMs: 0,
    ...request,
  });
}

const web = placedOn(["a", "b"]);

describe("a rolling update that is asked for", () => {
  it("is refused to a set of another pod id, also to one that exists", async () => {
    await using world = await passWorld();
    const db = placedOn([], { name: "db", spec: aSpec({ podId: "db" }) });
    await expect(askedOf(requestDeps(world), [web, db], { newSet: "db" })).rejects.toThrow(/pod id "db".*"web"/);
    expect(await world.rolls.list()).toEqual([]);
  });

  it("goes on after a canary to as many as both sets have, where nobody says another number", async () => {
    await using world = await passWorld();
    const canary = placedOn(["c"], { name: "web-2" });
    const { record } = await askedOf(requestDeps(world), [web, canary], {});
    expect(record).toMatchObject({ target: 3 });
  });
});
