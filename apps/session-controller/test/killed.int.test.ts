import type { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { slowApi, type SlowApi } from "./slow-api.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  listPublishedEvents,
  openSessionWorld,
  readStoredRecord,
  submitSession,
  makeTrio,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
const DONE = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"];
const BLOCKER = { kind: "lease", id: "blocker" };

/** The way of a session into the phase in which its controller is killed; the result lets the session continue after that. */
type Phase = {
  readonly title: string;
  readonly driver: readonly string[];
  readonly arrange: (name: string, slow: SlowApi, submit: () => Promise<void>) => Promise<() => Promise<unknown>>;
};

describe("a crash of the controller (SIGKILL) at any point loses no session, creates no duplicate pod, leaks no machine", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function sees(name: string, what: string, look: (of: muster.session.v1.SessionRecord) => boolean) {
    await until(`${name} ${what}`, async () => look(await readStoredRecord(world, name)));
  }

  const heldAt =
    (component: string): Phase["arrange"] =>
    async (name, slow, submit) => {
      const held = slow.hold(`${name}-${component}`);
      await submit();
      await held.arrived;
      return () => held.release();
    };

  const PHASES: readonly Phase[] = [
    {
      title: "queued",
      driver: ["flash", "0"],
      arrange: async (name, _slow, submit) => {
        const needs = [{ component: "a", pool: "drivers" }];
        const { reservation } = await world.ledger.reserve({ requestId: name, owner: BLOCKER, needs });
        await submit();
        await sees(name, "waits at the ledger", ({ reservationId }) => reservationId !== "");
        return () => world.ledger.unreserve({ requestId: name, owner: BLOCKER, reservationId: reservation?.id ?? "" });
      },
    },
    { title: "accepted", driver: ["flash", "0"], arrange: heldAt("server-0") },
    { title: "provisioning", driver: ["flash", "0"], arrange: heldAt("driver") },
    {
      title: "running",
      driver: ["wait"],
      arrange: async (name, _slow, submit) => {
        await submit();
        await sees(name, "runs", ({ session }) => listEvents(session ?? {}).includes("RUN"));
        return () => {
          world.cluster.ending.add(`${name}-driver`);
          return Promise.resolve();
        };
      },
    },
    {
      title: "cleaning-up",
      driver: ["exit", "0"],
      arrange: async (name, _slow, submit) => {
        world.cluster.held.add(`${name}-server-0`);
        await submit();
        await sees(name, "has its logs", ({ logsCollected }) => logsCollected);
        return () => {
          world.cluster.held.clear();
          return Promise.resolve();
        };
      },
    },
  ];

  it.each(PHASES)("$title: another replica continues the session", async ({ title, driver, arrange }) => {
    const name = `killed-${title}`;
    await using slow = await slowApi(world.cluster.kubeconfig);
    const first = await world.startController({ MUSTER_KUBECONFIG: slow.kubeconfig });
    const goOn = await arrange(name, slow, () => submitSession(world, name, makeTrio(...driver)));
    await first.kill();
    const second = await world.startController();
    await goOn();
    expect(listEvents(await waitUntilFinished(world, name))).toEqual(DONE);
    expect(world.cluster.bound.filter((pod) => pod.startsWith(`${name}-`))).toEqual(
      ["server-0", "client-0", "driver"].map((component) => `${name}-${component}`),
    );
    await expectNothingLeft(world);
    // A new executor publishes all events again, and the stream drops the duplicates.
    await until(
      "every event is published",
      async () => (await listPublishedEvents(world, name)).join() === DONE.join(),
    );
    await second.kill();
  });
});
