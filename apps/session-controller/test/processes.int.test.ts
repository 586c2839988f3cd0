import { findFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startOtlpCollector, until, type OtlpCollector } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS, EMBEDDED } from "./api-servers.ts";
import { processCluster } from "./process-cluster.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  listPublishedEvents,
  RAN,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
const LOG_LIMIT = 300_000;

// A readiness probe connects and disconnects without reading.
const SERVER = `
  require("node:net").createServer((socket) => socket.on("error", () => {}).end(process.env.WORKER_KIND + " " + process.env.MUSTER_COMPONENT))
    .listen(Number(process.env.DRIVER_PORT), process.env.POD_IP, () => console.log("listening"));
`;

const DRIVER = `
  const net = require("node:net");
  const ask = (address) => new Promise((resolve, reject) => {
    const [host, port] = address.split(":");
    net.connect(Number(port), host).on("data", (data) => resolve(String(data))).on("error", reject);
  });
  Promise.all(process.env.QPS_WORKERS.split(",").map(ask)).then((answers) => {
    console.log("a line of no interest");
    console.log(JSON.stringify({ answers, scenario: JSON.parse(process.env.SCENARIO_JSON), traced: process.env.TRACEPARENT }));
    console.log("bye");
  });
`;

/** Writes its result to the file and another line to its log. */
const FILER = `
  const workers = JSON.parse(process.env.MUSTER_WORKERS).map(({ name, kind, address }) => [name, kind, address === process.env.QPS_WORKERS]);
  require("node:fs").writeFileSync(process.env.MUSTER_RESULT_FILE, JSON.stringify({ workers }));
  console.log(JSON.stringify({ from: "the log" }));
`;

/** Writes numbered lines beyond the stored size, and waits for its end. */
const TALKER = `
  for (let line = 0; line < 60000; line += 1) console.log(String(line).padStart(9, "0"));
  setInterval(() => {}, 1000);
`;

/** Writes a second line some time after the first, and waits for its end. */
const SPEAKER = `
  console.log("first");
  setTimeout(() => console.log("second"), 500);
  setInterval(() => {}, 1000);
`;

/** Writes the content of its template, and then waits for the end. */
const EQUIPPED = `
  const data = require("node:fs").readFileSync(process.env.HOME + "/data/greeting", "utf8");
  console.log(JSON.stringify({ data, token: process.env.TOKEN, level: process.env.CONFIG_LEVEL }));
  setInterval(() => {}, 1000);
`;

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`sessions of real processes under ${server.title}`, () => {
    let world: SessionWorld;
    let collector: OtlpCollector;

    beforeAll(async () => {
      collector = await startOtlpCollector();
      world = await openSessionWorld(await processCluster(await server.start(), POOLS), POOLS);
      await world.startController({
        ...collector.variables,
        SESSION_LOG_LIMIT_BYTES: String(LOG_LIMIT),
        SESSION_RESULT_FILE: "result.json",
        SESSION_LOG_PATIENCE_MS: "20000",
      });
    });

    afterAll(async () => {
      await world[Symbol.asyncDispose]();
      await collector[Symbol.asyncDispose]();
    });

    function node(name: string, kind: "driver" | "server" | "client", program: string, readyPort = 0) {
      return { ...makeScripted(name, kind), command: ["node", "--eval", program], readyPort };
    }

    async function wholeLog(
      name: string,
      component: string,
    ): Promise<{ text: string; offset: number; truncated: boolean }> {
      const chunks: Uint8Array[] = [];
      let offset = 0;
      for (;;) {
        const part = await world.sessions.getLogs({ name, component, offset });
        chunks.push(part.chunk);
        offset = part.nextOffset;
        if (part.complete) return { text: Buffer.concat(chunks).toString(), offset, truncated: part.truncated };
      }
    }

    it("passes the driver its workers and scenario, and keeps the result and every log", async () => {
      const components = [
        node("driver", "driver", DRIVER),
        node("client-0", "client", SERVER, 10_000),
        node("server-0", "server", SERVER, 10_000),
      ];
      const spec = { components, scenarioJson: '{"note":"$(POD_IP) $$"}' };
      await world.sessions.submitSession({ requestId: "traffic", name: "traffic", spec });
      const session = await waitUntilFinished(world, "traffic");
      expect(session.warnings).toEqual([]);
      expect(listEvents(session)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
      expect(JSON.parse(session.resultJson ?? "")).toMatchObject({
        answers: ["server server-0", "client client-0"],
        scenario: { note: "$(POD_IP) $$" },
      });
      expect((await wholeLog("traffic", "server-0")).text).toBe("listening\n");
      expect((await wholeLog("traffic", "driver")).text).toMatch(/^a line of no interest\n\{.*\}\nbye\n$/);
      await expectNothingLeft(world);
    });

    it("uses the driver's result file as its result; names, kinds and addresses of the workers are JSON", async () => {
      const components = [node("driver", "driver", FILER), node("server-0", "server", SERVER, 10_000)];
      await world.sessions.submitSession({ requestId: "filer", name: "filer", spec: { components } });
      const session = await waitUntilFinished(world, "filer");
      expect(session.warnings).toEqual([]);
      expect(JSON.parse(session.resultJson ?? "")).toEqual({ workers: [["server-0", "server", true]] });
    });

    it("records everything in one trace, from the submission to the last deleted pod, and into the pods", async () => {
      const { session } = await world.sessions.getSession({ name: "traffic" });
      const traceId = session?.traceparent.split("-")[1] ?? "none";
      const names = await until("the release has arrived", () => {
        const spans = collector.spans.filter((span) => span.traceId === traceId);
        const inTrace = spans.map(({ name, attributes: { "muster.component": component } }) =>
          typeof component === "string" ? `${name} ${component}` : name,
        );
        return inTrace.includes("release") && inTrace.includes("run") && inTrace;
      });
      for (const name of [
        "queue",
        "reserve",
        "create pod server-0",
        "create pod client-0",
        "create pod driver",
        "run",
        "collect logs",
        "delete pods",
        "release",
      ]) {
        expect(names).toContain(name);
      }
      expect(JSON.parse(session?.resultJson ?? "{}")).toHaveProperty(
        "traced",
        expect.stringContaining(traceId) as string,
      );
    });

    it("gives a pod the content of its component's template: resources, variables of a Secret, and a volume that an init container has filled", async () => {
      const { api } = world.cluster;
      const named = (name: string, more: object) => ({ namespace: "default", body: { metadata: { name }, ...more } });
      await api.createNamespacedSecret(named("bench-token", { stringData: { value: "secret word" } }));
      await api.createNamespacedConfigMap(named("bench-settings", { data: { LEVEL: "7" } }));
      const resources = { requests: { cpu: "100m", memory: "64Mi" }, limits: { memory: "1Gi" } };
      const volumeMounts = [{ name: "data", mountPath: "/data" }];
      const fill = `require("node:fs").writeFileSync(process.env.HOME + "/data/greeting", "hello")`;
      const template = {
        metadata: { labels: { team: "storage" } },
        spec: {
          volumes: [{ name: "data", emptyDir: {} }],
          imagePullSecrets: [{ name: "registry" }],
          initContainers: [{ name: "fill", image: "scripted", command: ["node", "--eval", fill], volumeMounts }],
          containers: [
            {
              name: "main",
              resources,
              volumeMounts,
              env: [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "bench-token", key: "value" } } }],
              envFrom: [{ prefix: "CONFIG_", configMapRef: { name: "bench-settings" } }],
            },
          ],
        },
      };
      const driver = { ...node("driver", "driver", EQUIPPED), templateJson: JSON.stringify(template) };
      await submitSession(world, "equipped", [driver]);
      const written = await until("the driver has written", async () => {
        const { chunk } = await world.sessions.getLogs({ name: "equipped", component: "driver" });
        return chunk.length > 0 && Buffer.from(chunk).toString();
      });
      expect(JSON.parse(written)).toEqual({ data: "hello", token: "secret word", level: "7" });
      const pod = await api.readNamespacedPod({ name: "equipped-driver", namespace: "default" });
      expect(pod.spec).toMatchObject({
        containers: [{ name: "main", resources }],
        imagePullSecrets: [{ name: "registry" }],
        restartPolicy: "Never",
      });
      expect(pod.metadata?.labels).toMatchObject({ team: "storage", "muster.dev/owner": "equipped" });
      await world.sessions.cancelSession({ requestId: "c", name: "equipped" });
      await waitUntilFinished(world, "equipped");
      await expectNothingLeft(world);
    });

    // A kube-apiserver without controllers never fills in the status of a quota.
    it.runIf(server === EMBEDDED)(
      "ends with the message of the cluster if a quota refuses the requests of a template",
      async () => {
        await world.cluster.api.createNamespacedResourceQuota({
          namespace: "default",
          body: { metadata: { name: "no-memory" }, spec: { hard: { "requests.memory": "1Mi" } } },
        });
        const amounts = { memory: "2Mi" };
        const template = {
          spec: { containers: [{ name: "main", resources: { requests: amounts, limits: amounts } }] },
        };
        await submitSession(world, "greedy", [
          { ...node("driver", "driver", EQUIPPED), templateJson: JSON.stringify(template) },
        ]);
        const session = await waitUntilFinished(world, "greedy");
        expect(session.events?.at(-1)).toMatchObject({ reason: "POD_REFUSED" });
        expect(session.events?.at(-1)?.description).toContain("no-memory");
        await expectNothingLeft(world);
        await world.cluster.api.deleteNamespacedResourceQuota({ name: "no-memory", namespace: "default" });
      },
    );

    it("refuses a template with a forbidden field, and stores nothing", async () => {
      const driver = { ...node("driver", "driver", EQUIPPED), templateJson: '{"spec":{"nodeName":"drivers-0"}}' };
      const error: unknown = await submitSession(world, "pinned", [driver]).catch((reason: unknown) => reason);
      expect(findFault(error)).toMatchObject({
        code: "invalid_request",
        field: "components[0].template_json.spec.nodeName",
      });
      await expect(world.sessions.getSession({ name: "pinned" })).rejects.toMatchObject({
        fault: { code: "not_found" },
      });
    });

    it("shows the log of a running pod, and later its end at the same offsets", async () => {
      await world.sessions.submitSession({
        requestId: "talk",
        name: "talk",
        spec: { components: [node("driver", "driver", TALKER)] },
      });
      const first = await until("the driver has written everything", async () => {
        const part = await world.sessions.getLogs({
          name: "talk",
          component: "driver",
          offset: 599_990,
          limitBytes: 100,
        });
        return part.chunk.length > 0 && part;
      });
      expect(Buffer.from(first.chunk).toString()).toBe("000059999\n");
      expect(first).toMatchObject({ nextOffset: 600_000, complete: false });
      await world.sessions.cancelSession({ requestId: "c", name: "talk" });
      const session = await waitUntilFinished(world, "talk");
      expect(listEvents(session).at(-1)).toBe("CANCELLED");

      const kept = await wholeLog("talk", "driver");
      expect(kept).toMatchObject({ offset: 600_000, truncated: true });
      expect(kept.text).toHaveLength(LOG_LIMIT);
      expect(kept.text.startsWith("000030000\n")).toBe(true);
      const end = await world.sessions.getLogs({ name: "talk", component: "driver", offset: 599_990 });
      expect(Buffer.from(end.chunk).toString()).toBe("000059999\n");
      const beyond = await world.sessions.getLogs({ name: "talk", component: "driver", offset: 600_000 });
      expect(beyond).toMatchObject({ complete: true, nextOffset: 600_000 });
    });

    it("streams the output of a running pod as soon as it is written, and ends with the stored log at the same offset", async () => {
      const spec = { components: [node("driver", "driver", SPEAKER)] };
      await world.sessions.submitSession({ requestId: "speak", name: "speak", spec });
      const next = async (offset: number, waitMs: number) => {
        const request = { name: "speak", component: "driver", offset, waitMs };
        const { chunk, nextOffset, complete } = await world.sessions.getLogs(request, { timeoutMs: 60_000 });
        return { text: Buffer.from(chunk).toString(), nextOffset, complete };
      };
      const first = await until("it has written something", async () => {
        const part = await next(0, 20_000);
        return part.text === "" ? undefined : part;
      });
      const second = first.text.endsWith("second\n") ? first : await next(first.nextOffset, 20_000);
      expect(second).toMatchObject({ nextOffset: 13, complete: false });
      expect(await next(13, 10)).toMatchObject({ text: "", nextOffset: 13, complete: false });
      await world.sessions.cancelSession({ requestId: "c", name: "speak" });
      await waitUntilFinished(world, "speak");
      expect(await next(13, 20_000)).toMatchObject({ text: "", nextOffset: 13, complete: true });
    });

    it("finished sessions expire after a TTL, and their logs with them", async () => {
      const bytes = { encode: (value: Uint8Array) => value, decode: (value: Uint8Array) => value };
      const logs = await openBucket(world.bus.connection, { name: buckets.sessionLogs, codec: bytes });
      const kept = new Set<string>();
      const stored = world.bus.connection.subscribe(`$KV.${buckets.sessionLogs}.short.>`, {
        callback: (_error, { subject, data }) => {
          if (data.length > 0) kept.add(subject);
        },
      });
      const spec = { components: [node("driver", "driver", `console.log("short")`)], ttlMs: 1000 };
      await world.sessions.submitSession({ requestId: "short", name: "short", spec });
      await until("the session is gone", async () => {
        const { sessions } = await world.sessions.listSessions({});
        return sessions.every(({ name }) => name !== "short");
      });
      expect(await listPublishedEvents(world, "short")).toEqual([...RAN, "DONE"]);
      expect(kept.size).toBe(1);
      stored.unsubscribe();
      expect(await logs.list("short.>")).toEqual([]);
    });

    it("names the command that does not exist", async () => {
      const components = [{ ...makeScripted("driver", "driver"), command: ["no-such-program"] }];
      await world.sessions.submitSession({ requestId: "typo", name: "typo", spec: { components } });
      const session = await waitUntilFinished(world, "typo");
      expect(session.events?.at(-1)).toMatchObject({ reason: "COMPONENT_FAILED" });
      expect(session.events?.at(-1)?.description).toContain("no-such-program");
    });
  });
}
