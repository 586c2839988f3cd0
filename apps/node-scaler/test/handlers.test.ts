import { muster } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { makeHandlers } from "../src/adapters/handlers.ts";
import { buildPolicy } from "./build-node.ts";
import { ScalerWorld } from "./scaler-world.ts";

const { DumpNodesRequest, TerminateNodeRequest } = muster.node.v1;
const call = { signal: new AbortController().signal, deadlineMs: Infinity, pageBytes: Infinity };

const ask = (world: ScalerWorld) => makeHandlers(world.scaler, { leader: "me", loops: [] });
const undecided = async (world: ScalerWorld) => (await ask(world).dumpNodes(DumpNodesRequest.create(), call)).undecided;

describe("a leader that has decided nothing yet", () => {
  it("reports the reason of its wait, and no longer after it has decided", async () => {
    const world = new ScalerWorld(buildPolicy());
    world.isWatcherSilent = true;
    world.watch();
    await world.round("heartbeat");
    await world.round("pool");
    expect(await undecided(world)).toBe("the watcher has not reported lately which nodes exist");
    world.isWatcherSilent = false;
    world.isLedgerSilent = true;
    world.watch();
    await world.round("heartbeat");
    expect(await undecided(world)).toBe("the ledger has not sent its machines to this leader");
    world.isLedgerSilent = false;
    await world.round("heartbeat");
    expect(await undecided(world)).toBe("the first round that decides has not ended");
    await world.round("pool");
    expect(await undecided(world)).toBe("");
  });
});

describe("an order to end a node", () => {
  it.each([
    ["ada@laptop", "ada@laptop asked for it"],
    ["", "an unnamed caller asked for it"],
    ["x".repeat(500), `${"x".repeat(100)} asked for it`],
  ])("by %j is named in the record", async (requestedBy, message) => {
    const world = new ScalerWorld(buildPolicy());
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(60_000);
    const [{ name } = { name: "" }] = world.records();
    await ask(world).terminateNode(TerminateNodeRequest.create({ name, requestId: "r", requestedBy }), call);
    expect(world.records()[0]?.spec.terminate).toMatchObject({ code: "REQUESTED", message, requestId: "r" });
  });
});
