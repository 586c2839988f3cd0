import { labels, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import { findFault } from "@muster/faults";
import { API_SERVERS } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  listEvents,
  waitUntilNothingLeft,
  expectNothingLeft,
  waitUntilFinished,
  listPublishedEvents,
  RAN,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`sessions on ${server.title}`, () => {
    let world: SessionWorld<ScriptedCluster>;

    beforeAll(async () => {
      world = await openSessionWorld(await openScriptedCluster(await server.start(), POOLS), POOLS);
      await world.startController({ SESSION_LEAK_AGE_MS: "0" });
    });

    afterAll(async () => {
      await world[Symbol.asyncDispose]();
    });

    it("runs a good session from submission to the last deleted pod, and keeps and lists all its events with time and description", async () => {
      await submitSession(world, "good", [
        makeScripted("driver", "driver", "exit", "0"),
        makeScripted("client-0", "client", "serve"),
        makeScripted("server-0", "server", "serve"),
      ]);
      const session = await waitUntilFinished(world, "good");
      expect(listEvents(session)).toEqual([...RAN, "DONE"]);
      // All events are stored with a time and a description, and listed.
      for (const { atMs, description } of session.events ?? []) {
        expect(atMs).toBeGreaterThan(0);
        expect(description).not.toBe("");
      }
      const { sessions } = await world.sessions.listSessions({});
      expect(sessions.find(({ name }) => name === "good")?.events).toEqual(session.events);
      expect(world.cluster.bound.slice(-3)).toEqual(["good-server-0", "good-client-0", "good-driver"]);
      expect(session.components?.map(({ state, exitCode }) => [state, exitCode ?? undefined])).toEqual([
        ["SUCCEEDED", 0],
        ["STOPPED", undefined],
        ["STOPPED", undefined],
      ]);
      await expectNothingLeft(world);
    });

    it.each([
      ["not-found", "missing", "0", /driver failed with exit code 128: StartError/],
      ["driver-fails", "exit", "3", /driver failed with exit code 3/],
    ])("ends %s as an error that names the driver", async (name, word, code, description) => {
      await submitSession(world, name, [
        makeScripted("driver", "driver", word, code),
        makeScripted("server-0", "server", "serve"),
      ]);
      const session = await waitUntilFinished(world, name);
      expect(listEvents(session).at(-1)).toBe("ERROR");
      expect(session.events?.at(-1)).toMatchObject({ reason: "COMPONENT_FAILED" });
      expect(session.events?.at(-1)?.description).toMatch(description);
      await expectNothingLeft(world);
    });

    it("ends when a worker crashes immediately, and never starts the driver", async () => {
      await submitSession(world, "worker-crash", [
        makeScripted("driver", "driver", "exit", "0"),
        makeScripted("server-0", "server", "flash", "7"),
      ]);
      const session = await waitUntilFinished(world, "worker-crash");
      expect(listEvents(session)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "ERROR"]);
      expect(session.events?.at(-1)?.description).toMatch(/server server-0 failed with exit code 7/);
      expect(world.cluster.bound).not.toContain("worker-crash-driver");
    });

    it("is done if the driver ends before it was observed ready", async () => {
      await submitSession(world, "flash", [
        makeScripted("driver", "driver", "flash", "0"),
        makeScripted("server-0", "server", "serve"),
      ]);
      expect(listEvents(await waitUntilFinished(world, "flash"))).toEqual([...RAN, "DONE"]);
    });

    it("deletes a finished session with its logs, and runs another one of the same name", async () => {
      const components = [makeScripted("driver", "driver", "exit", "0")];
      await submitSession(world, "again", components);
      await expect(world.sessions.deleteSession({ name: "again" })).rejects.toMatchObject({
        fault: { code: "invalid_request" },
      });
      const { uid } = await waitUntilFinished(world, "again");
      await world.sessions.deleteSession({ requestId: "d", name: "again", uid: uid ?? "" });
      await expect(world.sessions.getSession({ name: "again" })).rejects.toMatchObject({
        fault: { code: "not_found" },
      });
      await submitSession(world, "again", components);
      expect((await waitUntilFinished(world, "again")).uid).not.toBe(uid);
    });

    it("ignores a worker that succeeds", async () => {
      await submitSession(world, "worker-ends", [
        makeScripted("driver", "driver", "exit", "0"),
        makeScripted("client-0", "client", "exit", "0"),
      ]);
      expect(listEvents(await waitUntilFinished(world, "worker-ends"))).toEqual([...RAN, "DONE"]);
    });

    it("ends when one of its pods is deleted manually", async () => {
      await submitSession(world, "robbed", [
        makeScripted("driver", "driver", "serve"),
        makeScripted("server-0", "server", "serve"),
      ]);
      await waitForEvent(world, "robbed", "RUN");
      await world.cluster.api.deleteNamespacedPod({ name: "robbed-server-0", namespace: "default" });
      const session = await waitUntilFinished(world, "robbed");
      expect(session.events?.at(-1)).toMatchObject({ reason: "COMPONENT_FAILED" });
      expect(session.warnings?.map(({ code }) => code)).toContain("LOGS_LOST");
    });

    it("the timeout covers provisioning and running: the session ends at its time limit", async () => {
      await submitSession(world, "slow", [{ ...makeScripted("driver", "driver", "idle"), readyPort: 10_000 }], {
        timeoutMs: 15_000,
      });
      const session = await waitUntilFinished(world, "slow");
      expect(session.events?.at(-1)).toMatchObject({ reason: "TIMEOUT" });
      expect(session.events?.at(-1)?.description).toContain("driver is NOT_READY");
    });

    it("cancels a running session, and one that waits for it", async () => {
      await submitSession(world, "first", [makeScripted("driver", "driver", "serve")]);
      await waitForEvent(world, "first", "RUN");
      await submitSession(world, "second", [makeScripted("driver", "driver", "serve")]);
      await until("the second one states why it waits", async () => {
        const { session } = await world.sessions.getSession({ name: "second" });
        return session?.waitingBecause !== "";
      });
      await world.sessions.cancelSession({ requestId: "c-2", name: "second" });
      expect(listEvents(await waitUntilFinished(world, "second"))).toEqual(["QUEUE", "CANCELLED"]);
      expect(listEvents((await world.sessions.getSession({ name: "first" })).session ?? {})).toEqual(RAN);
      await world.sessions.cancelSession({ requestId: "c-1", name: "first" });
      expect(listEvents(await waitUntilFinished(world, "first"))).toEqual([...RAN, "CANCELLED"]);
      const again = await world.sessions.cancelSession({ requestId: "c-1", name: "first" });
      expect(listEvents(again.session ?? {})).toEqual([...RAN, "CANCELLED"]);
      await expectNothingLeft(world);
    });

    it("checks a session without storing it, and states why it would wait", async () => {
      const spec = { components: [makeScripted("driver", "driver", "serve")] };
      const check = async (name: string) => (await world.sessions.checkSession({ name, spec })).session;
      expect(await check("planned")).toMatchObject({ name: "planned", waitingCode: "", waitingBecause: "" });
      await submitSession(world, "holder", spec.components);
      await waitForEvent(world, "holder", "RUN");
      expect(await check("planned")).toMatchObject({ waitingCode: "CONCURRENCY_LIMIT" });
      await expect(check("holder")).rejects.toMatchObject({ fault: { code: "already_exists" } });
      await expect(world.sessions.getSession({ name: "planned" })).rejects.toMatchObject({
        fault: { code: "not_found" },
      });
      const nowhere = { components: [{ ...makeScripted("driver", "driver", "exit", "0"), pool: "gpus" }] };
      await expect(world.sessions.checkSession({ name: "nowhere", spec: nowhere })).rejects.toMatchObject({
        fault: { code: "pool_unknown", pool: "gpus" },
      });
      await world.sessions.cancelSession({ requestId: "c-holder", name: "holder" });
      await waitUntilFinished(world, "holder");
    });

    it("immediately ends a session whose pool does not exist or is too small", async () => {
      await submitSession(world, "nowhere", [{ ...makeScripted("driver", "driver", "exit", "0"), pool: "gpus" }]);
      expect((await waitUntilFinished(world, "nowhere")).events?.at(-1)).toMatchObject({ reason: "POOL_UNKNOWN" });
      await submitSession(world, "crowd", [
        makeScripted("driver", "driver", "exit", "0"),
        ...[0, 1, 2].map((n) => makeScripted(`c-${n}`, "client", "serve")),
      ]);
      const crowd = await waitUntilFinished(world, "crowd");
      expect(listEvents(crowd)).toEqual(["QUEUE", "ERROR"]);
      expect(crowd.events?.at(-1)).toMatchObject({
        reason: "POOL_CAPACITY",
        description: "pool workers has 2 machines at most, 3 are needed: request fewer, or enlarge the pool",
      });
    });

    // The embedded API server has no policy that refuses a pod, so this part needs a real one.
    if (server.isReal)
      it("ends with the message of the API server if that refuses the pod", async () => {
        const limits = [{ type: "Pod", max: { cpu: "1" } }];
        await world.cluster.api.createNamespacedLimitRange({
          namespace: "default",
          body: { metadata: { name: "small" }, spec: { limits } },
        });
        await submitSession(world, "refused", [makeScripted("driver", "driver", "exit", "0")]);
        const session = await waitUntilFinished(world, "refused");
        await world.cluster.api.deleteNamespacedLimitRange({ name: "small", namespace: "default" });
        expect(session.events?.at(-1)).toMatchObject({ reason: "POD_REFUSED" });
      });

    it("gives a name to one session, and returns it for the same request", async () => {
      await submitSession(world, "twin", [makeScripted("driver", "driver", "exit", "0")]);
      const first = await world.sessions.getSession({ name: "twin" });
      await submitSession(world, "twin", [makeScripted("driver", "driver", "exit", "0")]);
      expect((await world.sessions.getSession({ name: "twin" })).session?.uid).toBe(first.session?.uid);
      const other = world.sessions.submitSession({
        requestId: "another",
        name: "twin",
        spec: { components: [makeScripted("driver", "driver", "exit", "0")] },
      });
      expect(findFault(await other.catch((error: unknown) => error))).toMatchObject({
        code: "already_exists",
        id: "twin",
      });
      await waitUntilFinished(world, "twin");
    });

    it("answers a long poll when the session changes, and lists sessions in pages", async () => {
      const { sessions } = await world.sessions.listSessions({});
      const names = sessions.map(({ name }) => name);
      expect(names).toEqual([...names].sort());
      const paged: string[] = [];
      let next = "";
      do {
        const page = await world.sessions.listSessions({ limit: 2, continue: next });
        paged.push(...page.sessions.map(({ name }) => name));
        next = page.continue;
      } while (next !== "");
      expect(paged).toEqual(names);

      await submitSession(world, "watched", [makeScripted("driver", "driver", "serve")]);
      await waitForEvent(world, "watched", "RUN");
      const { session } = await world.sessions.getSession({ name: "watched" });
      const watching = world.sessions.watchSession(
        { name: "watched", afterRevision: session?.revision ?? 0, waitMs: 30_000 },
        { timeoutMs: 60_000 },
      );
      await world.sessions.cancelSession({ requestId: "c", name: "watched" });
      expect((await watching).session?.cancelRequested).toBe(true);
      await waitUntilFinished(world, "watched");
    });

    it("finished sessions expire after a TTL", async () => {
      await submitSession(world, "brief", [makeScripted("driver", "driver", "exit", "0")], { ttlMs: 1000 });
      await until("it is gone", async () => {
        const error: unknown = await world.sessions.getSession({ name: "brief" }).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        return findFault(error)?.code === "not_found";
      });
      expect(await listPublishedEvents(world, "brief")).toEqual([...RAN, "DONE"]);
    });

    it("removes pods and machines of an unknown session", async () => {
      const { api } = world.cluster;
      const ghost = { [labels.ownerKind]: "session", [labels.owner]: "ghost", [labels.component]: "driver" };
      await world.ledger.reserve({
        requestId: "ghost",
        owner: { kind: "session", id: "ghost" },
        needs: [{ component: "driver", pool: "drivers" }],
      });
      await api.createNamespacedPod({
        namespace: "default",
        body: {
          metadata: { name: "ghost-driver", labels: ghost },
          spec: { nodeName: "drivers-0", containers: [{ name: "main", image: "scripted", args: ["serve"] }] },
        },
      });
      await waitUntilNothingLeft(world);
    });

    it("answers undecodable requests on every endpoint with a fault and continues", async () => {
      const garbage = Buffer.from("ffffffffffffff", "hex");
      for (const verb of [
        "submit-session",
        "get-session",
        "watch-session",
        "list-sessions",
        "cancel-session",
        "get-logs",
      ]) {
        const { headers } = await world.bus.request(`muster.req.session.${verb}`, garbage, { timeoutMs: 30_000 });
        expect([...headers.keys()].join(), verb).toContain("Nats-Service-Error");
      }
      const empty: Promise<unknown>[] = [
        world.sessions.submitSession({}),
        world.sessions.getSession({}),
        world.sessions.watchSession({ name: "a.b" }),
        world.sessions.cancelSession({ name: "*" }),
        world.sessions.getLogs({ name: ">" }),
      ];
      for (const call of empty) {
        expect(findFault(await call.catch((error: unknown) => error))?.code).toBe("invalid_request");
      }
      const missing = world.sessions.getLogs({ name: "good", component: "absent" });
      expect(findFault(await missing.catch((error: unknown) => error))).toMatchObject({
        code: "not_found",
        kind: "component",
      });
      await world.bus.publish(subjects.reservationGranted("session", "garbage"), garbage, { messageId: "garbage" });
      await submitSession(world, "after-garbage", [makeScripted("driver", "driver", "exit", "0")]);
      expect(listEvents(await waitUntilFinished(world, "after-garbage"))).toEqual([...RAN, "DONE"]);
    });
  });
}
