import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  waitForEvent,
  openSessionWorld,
  readStoredRecord,
  submitSession,
  makeTrio,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
/** Scripted pods have no logs, so each session retries for this time. */
const PATIENT = { SESSION_EXECUTORS: "1", SESSION_LOG_PATIENCE_MS: "0", SESSION_RESULT_PATIENCE_MS: "60000" };

describe("a session whose driver's log cannot be read", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
    await world.startController(PATIENT);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  it("releases its machines and the only executor place to the next session while the log is retried", async () => {
    await submitSession(world, "unreadable", makeTrio("exit", "0"));
    await submitSession(world, "next", makeTrio("serve"));
    await waitForEvent(world, "next", "RUN");
    const { session, logsCollected } = await readStoredRecord(world, "unreadable");
    expect(listEvents(session ?? {}).at(-1)).toBe("RUN");
    expect(logsCollected).toBe(false);
    const { items } = await world.cluster.api.listNamespacedPod({ namespace: "default" });
    const pods = items.map(({ metadata }) => metadata?.name).filter((name) => name?.startsWith("unreadable-"));
    expect(pods).toEqual(["unreadable-driver"]);
  });
});
