import { buildSessionElsewhereId } from "@muster/names";
import { buckets, labels, muster } from "@muster/proto";
import { makeProtoCodec, openBucket } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { processCluster } from "./process-cluster.ts";
import { listEvents, makeScripted, openSessionWorld, type Controller, type SessionWorld } from "./world.ts";

const POOLS = { drivers: 4 };
const PATIENCE = { timeoutMs: 60_000 };
const ENV = {
  SESSION_NAMESPACES: "all",
  SESSION_EXECUTORS: "0",
  SESSION_LEAK_AGE_MS: "0",
  SESSION_LOG_PATIENCE_MS: "20000",
};
const { Queue } = muster.reservation.v1;

type Key = { readonly name: string; readonly namespace: string };

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(
    `sessions in namespaces with a queue, under ${server.title}`,
    { timeout: 120_000 },
    () => {
      let world: SessionWorld;
      let controller: Controller;

      beforeAll(async () => {
        world = await openSessionWorld(await processCluster(await server.start(), POOLS), POOLS);
        const { api } = world.cluster;
        for (const name of ["team-a", "team-b", "team-z"])
          await api.createNamespace({ body: { metadata: { name, labels: { team: name } } } });
        const own = await api.readNamespace({ name: "default" });
        const metadata = { ...own.metadata, labels: { ...own.metadata?.labels, team: "default" } };
        await api.replaceNamespace({ name: "default", body: { ...own, metadata } });
        const bucket = await openBucket(world.bus.connection, { name: buckets.queues, codec: makeProtoCodec(Queue) });
        for (const name of ["default", "team-a", "team-b"]) {
          const namespaces = { matchLabels: { team: name }, matchExpressions: [] };
          const usual = { weightMilli: 1000, strategy: "BestEffortFIFO", stopPolicy: "None" };
          await bucket.create(name, Queue.create({ name, namespaces, ...usual }));
        }
        controller = await world.startController(ENV);
      }, 120_000);
      afterAll(() => world[Symbol.asyncDispose]());

      const submit = async (key: Key, program: string): Promise<void> => {
        const driver = { ...makeScripted("driver", "driver"), command: ["node", "--eval", program] };
        const requestId = `${key.namespace}/${key.name}`;
        await world.sessions.submitSession({ requestId, elsewhere: key, spec: { components: [driver] } });
      };
      const waiting = (text: string): string => `console.log(${JSON.stringify(text)}); setInterval(() => {}, 1000);`;
      const eventsOf = async (key: Key): Promise<string[]> =>
        listEvents((await world.sessions.getSession({ elsewhere: key })).session ?? {});
      const untilEvent = (key: Key, event: string): Promise<unknown> =>
        until(
          `${key.namespace}/${key.name} is at ${event}`,
          async () => (await eventsOf(key)).includes(event),
          PATIENCE,
        );
      const podsIn = async (namespace: string): Promise<(string | undefined)[]> =>
        (await world.cluster.api.listNamespacedPod({ namespace })).items.map(({ metadata }) => metadata?.name);
      const owners = async (): Promise<(string | undefined)[][]> =>
        (await world.ledger.listReservations({})).reservations.map(({ owner, queue }) => [owner?.id, queue]).toSorted();
      const logOf = async (key: Key): Promise<string> =>
        Buffer.from((await world.sessions.getLogs({ elsewhere: key, component: "driver" })).chunk).toString();
      const untilPods = (namespace: string, names: readonly string[]): Promise<unknown> =>
        until(
          `the pods of ${namespace} are ${names.join()}`,
          async () => (await podsIn(namespace)).toSorted().join() === names.join(),
          PATIENCE,
        );
      const createPod = (namespace: string, name: string, owner: string): Promise<unknown> =>
        world.cluster.api.createNamespacedPod({
          namespace,
          body: {
            metadata: { name, labels: { [labels.ownerKind]: "session", [labels.owner]: owner } },
            spec: {
              nodeSelector: { none: "none" },
              containers: [{ name: "main", image: "none", command: ["node", "--eval", ""] }],
            },
          },
        });

      it("run beside a session of the same name, and outlive the controller", async () => {
        const own = { name: "bench", namespace: "default" };
        const other = { name: "bench", namespace: "team-a" };
        const id = buildSessionElsewhereId(other);
        await submit(own, waiting("of default"));
        await submit(other, waiting("of team-a"));
        for (const key of [own, other]) await untilEvent(key, "RUN");
        expect(await owners()).toEqual(
          [
            ["bench", "default"],
            [id, "team-a"],
          ].toSorted(),
        );
        expect([await podsIn("default"), await podsIn("team-a")]).toEqual([["bench-driver"], ["bench-driver"]]);
        for (const key of [own, other])
          await until(
            `the log of ${key.namespace}`,
            async () => (await logOf(key)) === `of ${key.namespace}\n`,
            PATIENCE,
          );
        const { sessions } = await world.sessions.listSessions({ elsewhere: {} });
        expect(sessions.map(({ name, namespace }) => [name, namespace])).toEqual([
          ["bench", "default"],
          ["bench", "team-a"],
        ]);

        await controller.kill();
        controller = await world.startController(ENV);
        await world.sessions.cancelSession({ requestId: "cancel", elsewhere: other });
        await untilEvent(other, "CANCELLED");
        await untilPods("team-a", []);
        expect(await owners()).toEqual([["bench", "default"]]);
        expect(await logOf(other)).toBe("of team-a\n");
        expect(await eventsOf(own)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN"]);
        const removed = await world.sessions.deleteSession({ requestId: "delete", elsewhere: other });
        expect(removed.session).toMatchObject(other);
        await world.sessions.cancelSession({ requestId: "cancel", name: own.name });
        await untilEvent(own, "CANCELLED");
      });

      it("end as the driver ends, and not by pods of other namespaces with their labels", async () => {
        const key = { name: "ends", namespace: "team-b" };
        const id = buildSessionElsewhereId(key);
        for (const namespace of ["default", "team-a"]) await createPod(namespace, "ends-driver", id);
        await submit(key, 'console.log(JSON.stringify({ ended: "well" }));');
        await untilEvent(key, "DONE");
        const { session } = await world.sessions.getSession({ elsewhere: key });
        expect(session).toMatchObject({ ...key, resultJson: '{"ended":"well"}', warnings: [] });
        // What is left in the session's namespace is removed, and what only names it is kept.
        await createPod("team-b", "late", id);
        await untilPods("team-b", []);
        expect([await podsIn("default"), await podsIn("team-a")]).toEqual([["ends-driver"], ["ends-driver"]]);
        expect(await owners()).toEqual([]);
      });

      it("are refused where no queue serves the namespace", async () => {
        const refused = { fault: { code: "invalid_request", field: "namespace" } };
        await expect(submit({ name: "stray", namespace: "team-z" }, "")).rejects.toMatchObject(refused);
        await expect(world.sessions.listSessions({ elsewhere: { namespace: "team-z" } })).rejects.toMatchObject(
          refused,
        );
      });
    },
  );
}
