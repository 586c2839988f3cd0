import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  listPublishedEvents,
  RAN,
  waitForEvent,
  openSessionWorld,
  submitSession,
  makeTrio,
  type Controller,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };

describe("a take-over", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  function pidOf(session: muster.session.v1.Session.$Properties): number {
    const accepted = session.events?.find(
      ({ kind }) => kind === muster.session.v1.SessionEventKind.SESSION_EVENT_KIND_ACCEPT,
    );
    return Number(/session-controller-[^ ]*-(\d+)-[0-9a-f]+/.exec(accepted?.description ?? "")?.[1]);
  }

  it.each(["PROVISION", "RUN"])("continues with the same pods after its executor is killed at %s", async (event) => {
    const controllers = [await world.startController(), await world.startController()];
    const name = `killed-at-${event.toLowerCase()}`;
    await submitSession(world, name, makeTrio("serve"));
    await waitForEvent(world, name, event);
    const pid = pidOf((await world.sessions.getSession({ name })).session ?? {});
    const victim = controllers.find((each) => each.pid === pid);
    expect(victim).toBeDefined();
    await victim?.kill();
    await waitForEvent(world, name, "RUN");
    const pods = world.cluster.bound.filter((pod) => pod.startsWith(name));
    expect(pods).toEqual([`${name}-server-0`, `${name}-client-0`, `${name}-driver`]);

    await world.sessions.cancelSession({ requestId: "c", name });
    expect(listEvents(await waitUntilFinished(world, name))).toEqual([...RAN, "CANCELLED"]);
    await expectNothingLeft(world);
    await until(
      "every event was published",
      async () => (await listPublishedEvents(world, name)).join() === [...RAN, "CANCELLED"].join(),
    );
    await Promise.all(controllers.map((each) => each.kill()));
  });

  it("hands a running session over immediately when a controller stops", async () => {
    // Without the handover, the session would wait longer than the test.
    const LATE = { SESSION_LOCK_TTL_MS: "600000", SESSION_SWEEP_MS: "86400000" };
    const first = await world.startController(LATE);
    await submitSession(world, "handed", makeTrio("serve"));
    await waitForEvent(world, "handed", "RUN");
    await first.stop();
    const second = await world.startController(LATE);
    await world.sessions.cancelSession({ requestId: "c", name: "handed" });
    expect(listEvents(await waitUntilFinished(world, "handed"))).toEqual([...RAN, "CANCELLED"]);
    await second.stop();
  });

  it("accepts and keeps sessions while the bus is interrupted", async () => {
    const controller: Controller = await world.startController();
    await submitSession(world, "outlives", makeTrio("serve"));
    await waitForEvent(world, "outlives", "RUN");
    await world.nats.kill();
    await world.nats.start();
    await world.sessions.cancelSession({ requestId: "c", name: "outlives" });
    expect(listEvents(await waitUntilFinished(world, "outlives"))).toEqual([...RAN, "CANCELLED"]);
    await controller.kill();
  });

  it("reports the outcome though a pod stays, keeps its machine, and releases it once the pod is gone", async () => {
    const controller = await world.startController({ SESSION_CLEANUP_LIMIT_MS: "2500" });
    world.cluster.held.add("stuck-server-0");
    await submitSession(world, "stuck", makeTrio("exit", "0"));
    const session = await waitUntilFinished(world, "stuck");
    expect(listEvents(session)).toEqual([...RAN, "DONE"]);
    expect(session.warnings?.map(({ code }) => code)).toContain("PODS_NOT_GONE");
    const held = await world.ledger.getReservation({ owner: { kind: "session", id: "stuck" } });
    expect(held.reservation?.machines).toHaveLength(3);
    world.cluster.held.clear();
    await until("nothing is left", async () => {
      await expectNothingLeft(world);
      return true;
    });
    expect(listEvents((await world.sessions.getSession({ name: "stuck" })).session ?? {})).toEqual([...RAN, "DONE"]);
    await controller.kill();
  });
});
