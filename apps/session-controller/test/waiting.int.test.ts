import { findFault } from "@muster/faults";
import { buckets, type muster } from "@muster/proto";
import { openBucket } from "@muster/store";
import { findFreePort, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  followSession,
  listPublishedEvents,
  RAN,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 1 };
/** Fewer workers than waiting sessions, and no sweep during the test. */
const CROWDED = { SESSION_WORKERS: "2", SESSION_EXECUTORS: "0", SESSION_SWEEP_MS: "86400000" };

describe("more sessions than executor places", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function session(name: string): Promise<muster.session.v1.Session.$Properties> {
    return (await world.sessions.getSession({ name })).session ?? {};
  }

  async function waitsAtLedger(name: string): Promise<void> {
    await until(`${name} waits at the ledger`, async () =>
      /^pool drivers has 0 machines free, 1 are needed/.test((await session(name)).waitingBecause ?? ""),
    );
  }

  it("a waiting session takes no place, states why it waits now, and is woken by a grant, a cancellation and the end of its time", async () => {
    const controllers = [await world.startController(CROWDED), await world.startController(CROWDED)];
    await submitSession(world, "runs", [makeScripted("driver", "driver", "serve")]);
    await waitForEvent(world, "runs", "RUN");
    const waiting = ["w-0", "w-1", "w-2", "w-3", "w-4"];
    for (const name of waiting) {
      await submitSession(world, name, [makeScripted("driver", "driver", "serve")]);
      await waitsAtLedger(name);
    }
    await submitSession(world, "impatient", [makeScripted("driver", "driver", "serve")], { queueTimeoutMs: 10_000 });
    expect((await session("w-4")).waitingBecause).toContain("4 requests are ahead");
    const { explanation } = await world.sessions.explainSession({ name: "w-4" });
    expect(explanation).toMatchObject({
      ...{ kind: "session", name: "w-4", phase: "QUEUE", isOver: false },
      reasons: [{ code: "POOL_AVAILABILITY" }],
      reservation: { place: { ahead: 4 }, pools: [{ pool: "drivers", holders: [{ owner: { id: "runs" } }] }] },
    });

    await world.sessions.cancelSession({ requestId: "c", name: "w-1" });
    expect(listEvents(await waitUntilFinished(world, "w-1"))).toEqual(["QUEUE", "CANCELLED"]);
    expect((await session("w-4")).waitingBecause).toContain("3 requests are ahead");
    const impatient = (await waitUntilFinished(world, "impatient")).events?.at(-1);
    expect(impatient).toMatchObject({ reason: "QUEUE_TIMEOUT" });
    expect(impatient?.description).toMatch(/^no machines within 10s; pool drivers has 0 machines free, 1 are needed/);

    for (const [index, name] of ["runs", "w-0", "w-2", "w-3", "w-4"].entries()) {
      await waitForEvent(world, name, "RUN");
      await world.sessions.cancelSession({ requestId: `c-${index}`, name });
      expect(listEvents(await waitUntilFinished(world, name))).toEqual([...RAN, "CANCELLED"]);
    }
    await expectNothingLeft(world);
    await Promise.all(controllers.map((each) => each.stop()));
  });

  it("a grant and a cancellation reach a waiting session while users follow it", async () => {
    const controller = await world.startController(CROWDED);
    await submitSession(world, "ahead", [makeScripted("driver", "driver", "serve")]);
    await waitForEvent(world, "ahead", "RUN");
    const names = ["granted", "withdrawn", "last"];
    for (const name of names) await submitSession(world, name, [makeScripted("driver", "driver", "serve")]);
    for (const name of names) await waitsAtLedger(name);
    const follows = Promise.all(names.map((name) => followSession(world, name)));
    follows.catch(() => undefined);
    await world.sessions.cancelSession({ requestId: "c", name: "withdrawn" });
    await world.sessions.cancelSession({ requestId: "c", name: "ahead" });
    for (const name of ["granted", "last"]) {
      await waitForEvent(world, name, "RUN");
      await world.sessions.cancelSession({ requestId: "c", name });
    }
    expect((await follows).map(listEvents)).toEqual([
      [...RAN, "CANCELLED"],
      ["QUEUE", "CANCELLED"],
      [...RAN, "CANCELLED"],
    ]);
    await waitUntilFinished(world, "ahead");
    await expectNothingLeft(world);
    await controller.stop();
  });

  it("each of many concurrent sessions ends", async () => {
    const controller = await world.startController({ ...CROWDED, SESSION_WORKERS: "3" });
    const names = Array.from({ length: 15 }, (_, index) => `crowd-${index}`);
    await Promise.all(
      names.map((name) => submitSession(world, name, [makeScripted("driver", "driver", "flash", "0")])),
    );
    for (const name of names) expect(listEvents(await waitUntilFinished(world, name))).toEqual([...RAN, "DONE"]);
    await expectNothingLeft(world);
    await controller.stop();
  });

  it("waiting sessions continue after every controller was killed", async () => {
    const free = { SESSION_EXECUTORS: "0" };
    const before = [await world.startController(free), await world.startController(free)];
    await submitSession(world, "held", [makeScripted("driver", "driver", "serve")]);
    await waitForEvent(world, "held", "RUN");
    await submitSession(world, "patient", [makeScripted("driver", "driver", "flash", "0")]);
    await waitsAtLedger("patient");
    await Promise.all(before.map((each) => each.kill()));
    const after = await world.startController();
    await until("the cancellation is accepted", () =>
      world.sessions.cancelSession({ requestId: "c", name: "held" }, { timeoutMs: 2000 }).then(
        () => true,
        () => false,
      ),
    );
    expect(listEvents(await waitUntilFinished(world, "patient"))).toEqual([...RAN, "DONE"]);
    await after.stop();
  });

  it("the number of executors is exact: 1 means one, in all replicas together", async () => {
    const one = { SESSION_EXECUTORS: "1" };
    const controllers = [await world.startController(one), await world.startController(one)];
    const names = Array.from({ length: 6 }, (_, index) => `single-${index}`);
    // Two machines exist, so only the limit keeps two sessions from running concurrently.
    const driver = (index: number) => ({
      ...makeScripted("driver", "driver", "flash", "0"),
      pool: index % 2 === 0 ? "drivers" : "workers",
    });
    await Promise.all(names.map((name, index) => submitSession(world, name, [driver(index)])));
    const runs: { readonly from: number; readonly to: number }[] = [];
    for (const name of names) {
      const ended = await waitUntilFinished(world, name);
      expect(listEvents(ended)).toEqual([...RAN, "DONE"]);
      const [, accepted, , , done] = ended.events ?? [];
      runs.push({ from: accepted?.atMs ?? 0, to: done?.atMs ?? 0 });
    }
    runs.sort((a, b) => a.from - b.from);
    for (const [index, { to }] of runs.slice(0, -1).entries()) expect(runs[index + 1]?.from).toBeGreaterThanOrEqual(to);
    await expectNothingLeft(world);
    await Promise.all(controllers.map((each) => each.stop()));
  });

  it("a raised number of executors also applies to sessions that already wait", async () => {
    const before = await world.startController({ SESSION_EXECUTORS: "1" });
    await submitSession(world, "first", [makeScripted("driver", "driver", "serve")]);
    await waitForEvent(world, "first", "RUN");
    await submitSession(world, "second", [{ ...makeScripted("driver", "driver", "flash", "0"), pool: "workers" }]);
    await until("the second waits for the first", async () =>
      /^as many sessions as SESSION_EXECUTORS allows/.test((await session("second")).waitingBecause ?? ""),
    );
    await before.stop();
    const after = await world.startController({ SESSION_EXECUTORS: "2" });
    expect(listEvents(await waitUntilFinished(world, "second"))).toEqual([...RAN, "DONE"]);
    expect((await session("first")).finishedAtMs).toBe(0);
    await world.sessions.cancelSession({ requestId: "c", name: "first" });
    await waitUntilFinished(world, "first");
    await after.stop();
  });

  it("sessions over the unfinished limit are refused with a retry time", async () => {
    const controller = await world.startController({ ...CROWDED, SESSION_UNFINISHED: "2" });
    const taken = ["one", "two"];
    for (const name of taken) await submitSession(world, name, [makeScripted("driver", "driver", "serve")]);
    // The counts of a controller may be a moment old, and it never refuses a session that it has taken.
    const refused = await until("a submission is refused", async () => {
      const name = `more-${taken.length}`;
      const fault = await submitSession(world, name, [makeScripted("driver", "driver", "serve")]).then(
        () => undefined,
        (error: unknown) => findFault(error),
      );
      if (fault === undefined) taken.push(name);
      return fault;
    });
    expect(refused).toMatchObject({ code: "limit_exceeded", limit: 2, retryAfterMs: 10_000 });
    for (const name of taken) await world.sessions.cancelSession({ requestId: name, name });
    for (const name of taken) await waitUntilFinished(world, name);
    await until("there is room again", () =>
      submitSession(world, "four", [makeScripted("driver", "driver", "flash", "0")]).then(
        () => true,
        () => false,
      ),
    );
    expect(listEvents(await waitUntilFinished(world, "four"))).toEqual([...RAN, "DONE"]);
    await controller.stop();
  });

  it("an unreadable record stops no other session, and /readyz reports it", async () => {
    const bytes = { encode: (value: Uint8Array) => value, decode: (value: Uint8Array) => value };
    const records = await openBucket(world.bus.connection, { name: buckets.sessions, codec: bytes });
    const revision = await records.create("broken", Buffer.from("ffffffffffffff", "hex"));
    const port = await findFreePort();
    const address = `127.0.0.1:${port}`;
    const controller = await world.startController({ SESSION_SWEEP_MS: "100", MUSTER_HTTP_ADDR: address });
    const readiness = async (): Promise<string> => (await fetch(`http://${address}/readyz?verbose`)).text();
    await until("the service notes it", async () => (await readiness()).includes("stored and not readable: broken"));
    await submitSession(world, "sound", [makeScripted("driver", "driver", "flash", "0")], { ttlMs: 1000 });
    await until("the sweep has forgotten it", async () => {
      const { sessions } = await world.sessions.listSessions({});
      return !sessions.some(({ name }) => name === "sound");
    });
    expect(await listPublishedEvents(world, "sound")).toEqual([...RAN, "DONE"]);
    const error: unknown = await world.sessions.getSession({ name: "broken" }).catch((reason: unknown) => reason);
    expect(findFault(error)?.code).toBe("internal");
    await records.delete("broken", revision);
    await controller.stop();
  });
});
