import { startFaultyApi } from "@muster/devcluster";
import { until } from "@muster/testkit";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  RAN,
  makeScripted,
  openSessionWorld,
  readStoredRecord,
  submitSession,
  makeTrio,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
/** Maximum age of the watcher's mark for the ledger; the watcher renews it every half minute. */
const NODES_FRESH_MS = 1000;
/** Expires while the watcher is frozen, yet leaves the driver time to start or end before, even on a slow machine. */
const LIMITED = { timeoutMs: 15_000 };

describe("a session whose watcher is frozen (SIGSTOP) for all of its time", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
  });

  afterEach(() => {
    world.watcher.thaw();
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  it("ends with the success of its driver, which the API server reports", async () => {
    const controller = await world.startController();
    world.watcher.freeze();
    await submitSession(world, "unseen", [makeScripted("driver", "driver", "exit", "0")], LIMITED);
    expect(listEvents(await waitUntilFinished(world, "unseen"))).toEqual([...RAN, "DONE"]);
    await expectNothingLeft(world);
    await controller.stop();
  });

  it("is timed out when the API server reports that its driver still runs", async () => {
    const controller = await world.startController();
    world.watcher.freeze();
    await submitSession(world, "endless", makeTrio("serve"), LIMITED);
    const session = await waitUntilFinished(world, "endless");
    expect(session.events?.at(-1)).toMatchObject({ reason: "TIMEOUT" });
    await expectNothingLeft(world);
    await controller.stop();
  });

  it("ends as an internal error when the API server cannot report it either", async () => {
    const directory = await mkdtemp(join(tmpdir(), "muster-frozen-"));
    await using faulty = await startFaultyApi({ kubeconfig: world.cluster.kubeconfig, directory, seed: 1 });
    const controller = await world.startController({
      MUSTER_KUBECONFIG: faulty.kubeconfig,
      SESSION_CLEANUP_LIMIT_MS: "500",
    });
    world.watcher.freeze();
    await submitSession(world, "unknowable", [makeScripted("driver", "driver", "serve")], LIMITED);
    await until("the driver's pod is stored", async () => {
      const { session } = await readStoredRecord(world, "unknowable");
      return session?.components[0]?.podUid !== "";
    });
    await faulty.goAway(600_000);
    const session = await waitUntilFinished(world, "unknowable");
    expect(listEvents(session)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "INTERNAL_ERROR"]);
    expect(session.events?.at(-1)?.description).toMatch(
      /^not all components were ready within 15s: driver is CREATED; kubernetes is not available/,
    );
    await faulty.comeBack();
    await controller.stop();
    await rm(directory, { recursive: true, force: true });
  });
});

describe("a session that is submitted while the watcher is frozen (SIGSTOP)", () => {
  it.each([
    ["drivers", "that it knows"],
    ["gpu", "that the ledger does not know"],
  ])("names the unknown nodes in its first answer: pool %s, %s", async (pool) => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    const fresh = { RESERVATION_NODES_FRESH_MS: String(NODES_FRESH_MS) };
    await using world = await openSessionWorld(cluster, POOLS, {}, fresh);
    await world.startController();
    world.watcher.freeze();
    const owner = { kind: "session", id: "probe" };
    await until("the ledger trusts the nodes no more", async () => {
      const { because } = await world.ledger.checkReservation({ owner, needs: [{ component: "c", pool: "drivers" }] });
      return because?.code === "POOLS_NOT_KNOWN_YET";
    });
    await submitSession(world, "early", [{ ...makeScripted("driver", "driver", "serve"), pool }]);
    const { session } = await world.sessions.getSession({ name: "early" });
    expect(session).toMatchObject({
      waitingCode: "POOLS_NOT_KNOWN_YET",
      waitingBecause: "the ledger does not know the nodes yet",
    });
    world.watcher.thaw();
  });
});
