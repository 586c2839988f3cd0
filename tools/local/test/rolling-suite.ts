import type { V1EndpointSlice, V1Pod } from "@kubernetes/client-node";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { findFault } from "@muster/faults";
import { makeKubeCalls, toKubeFault, loadKube, openGet, type KubeCalls } from "@muster/kube";
import { FarmService, muster } from "@muster/proto";
import { until, makePatientClient } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorld, type World } from "./stack-world.ts";

const NAMESPACE = "default";
const IMAGE = "node:24-bookworm-slim";
const PODS = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
const SERVICES = { apiVersion: "v1", plural: "services", namespace: NAMESPACE };
const SLICES = { apiVersion: "discovery.k8s.io/v1", plural: "endpointslices", namespace: NAMESPACE };
const NAME = "rolled-web";
const CALLER = "rolled-web-caller";
const REPLICAS = 3;
const LONG = { timeoutMs: 240_000, everyMs: 200 };

/** Answers with its version, and stops gracefully: it accepts no new requests and finishes those in flight. */
const SERVER = `
  const server = require("node:http").createServer((_, answer) => setTimeout(() => answer.end(process.env.VERSION), 20));
  server.listen(8080);
  process.on("SIGTERM", () => server.close(() => process.exit(0)));
`;

/** Four concurrent callers, each with a new connection for each request, until SIGTERM. Logs the results once a second. */
const CALLS = `
  const seen = { failed: [], versions: {} };
  const call = () => new Promise((resolve) => {
    const fail = (error) => { seen.failed.push(new Date().toISOString() + " " + error.message); resolve(); };
    const request = require("node:http").get({ host: process.env.HOST, agent: false, timeout: 5000 }, (answer) => {
      let text = "";
      answer.on("data", (part) => (text += part)).on("error", fail).on("end", () => {
        if (answer.statusCode !== 200) return fail(new Error("status " + answer.statusCode));
        seen.versions[text] = (seen.versions[text] ?? 0) + 1;
        resolve();
      });
    });
    request.on("error", fail).on("timeout", () => request.destroy(new Error("no answer")));
  });
  for (let caller = 0; caller < 4; caller += 1) (async () => { for (;;) await call(); })();
  setInterval(() => console.log(JSON.stringify(seen)), 1000);
  process.on("SIGTERM", () => process.exit(0));
`;

type Seen = { readonly failed: readonly string[]; readonly versions: Readonly<Record<string, number>> };

function templateOf(version: string): string {
  const container = {
    name: "web",
    image: IMAGE,
    command: ["node", "-e", SERVER],
    env: [{ name: "VERSION", value: version }],
    ports: [{ containerPort: 8080 }],
    readinessProbe: { httpGet: { path: "/", port: 8080 }, periodSeconds: 1 },
    // Nodes remove the endpoint one after another; until then the pod must answer.
    lifecycle: { preStop: { sleep: { seconds: 5 } } },
  };
  const spec = { terminationGracePeriodSeconds: 20, containers: [container] };
  return JSON.stringify({ metadata: { labels: { app: NAME } }, spec });
}

/** Runs on a real cluster only: the embedded cluster does not route Services. */
export function describeRollingSuite(kubeconfig: string): void {
  describe("a rolling update under traffic on the real cluster", { timeout: 300_000 }, () => {
    let world: World;
    let calls: KubeCalls;
    let farms: Client<typeof FarmService>;
    const stack = new AsyncDisposableStack();

    beforeAll(async () => {
      world = stack.use(await startWorld({ kubeconfig }));
      calls = stack.use(makeKubeCalls(loadKube(kubeconfig)));
      stack.defer(() => removed(calls));
      await removed(calls);
      const bus = stack.use(await connectNats({ ...world.stack.nats, name: "test" }));
      farms = makePatientClient(makeClient(bus, FarmService));
      stack.defer(async () => {
        for (const name of ["web-1", "web-2"]) {
          const deleted = farms.deleteReplicaSet({ requestId: "end", name, force: true }, { timeoutMs: 60_000 });
          await deleted.catch(() => undefined);
          await until(`${name} is gone`, () => isMissing(farms.getReplicaSet({ name })), LONG);
        }
      });
    }, 240_000);

    afterAll(() => stack.disposeAsync(), 240_000);

    it("loses no request", async () => {
      const spec = {
        podId: NAME,
        templateJson: templateOf("1"),
        nodeSelector: "",
        replicasDesired: REPLICAS,
        allocationStrategy: muster.farm.v1.AllocationStrategy.ALLOCATION_STRATEGY_DYNAMIC,
      };
      await until("the farm answers", () => farms.listReplicaSets({}).then(() => true), LONG);
      await farms.applyReplicaSet({ requestId: "1", name: "web-1", spec }, { timeoutMs: 60_000 });
      const service = { selector: { app: NAME }, ports: [{ port: 80, targetPort: 8080 }] };
      const metadata = { name: NAME };
      const { spec: made } = await calls.create(SERVICES, {
        apiVersion: "v1",
        kind: "Service",
        metadata,
        spec: service,
      });
      await until("the service has all replicas", () => hasEndpoints(calls), LONG);
      const host = (made as { readonly clusterIP?: string }).clusterIP ?? "";
      await calls.create(PODS, callerOf(host));
      await until("requests are answered", async () => ((await seen(kubeconfig)).versions["1"] ?? 0) > 50, LONG);

      const roll = { requestId: "2", oldSet: "web-1", newSet: "web-2", templateJson: templateOf("2") };
      await farms.createRoll({ ...roll, minimumReplicas: REPLICAS - 1 }, { timeoutMs: 60_000 });
      await until("the update has ended", () => isMissing(farms.getRoll({ id: "web-2" })), LONG);
      await until("the old set's pods are gone", () => isMissing(farms.getReplicaSet({ name: "web-1" })), LONG);
      const after = await seen(kubeconfig);
      const more = await until(
        "requests continue",
        async () => {
          const now = await seen(kubeconfig);
          return (now.versions["2"] ?? 0) > (after.versions["2"] ?? 0) + 50 && now;
        },
        LONG,
      );
      expect(more.failed).toEqual([]);
      expect(more.versions["1"]).toBe(after.versions["1"]);
    });
  });
}

async function hasEndpoints(calls: KubeCalls): Promise<boolean> {
  const query = { labelSelector: `kubernetes.io/service-name=${NAME}` };
  const slices = (await calls.list<V1EndpointSlice>(SLICES, { query })).items;
  const ready = slices
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready === true);
  return ready.length === REPLICAS;
}

function callerOf(host: string): V1Pod {
  const container = {
    name: "caller",
    image: IMAGE,
    command: ["node", "-e", CALLS],
    env: [{ name: "HOST", value: host }],
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: CALLER },
    spec: { terminationGracePeriodSeconds: 1, containers: [container] },
  };
}

/** The latest results of the caller. */
async function seen(kubeconfig: string): Promise<Seen> {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${CALLER}/log`;
  const answer = await openGet(loadKube(kubeconfig), path, { tailLines: "1" }, AbortSignal.timeout(10_000));
  const text = (await answer.setEncoding("utf8").toArray()).join("");
  return JSON.parse(text) as Seen;
}

async function removed(calls: KubeCalls): Promise<void> {
  for (const [resource, name] of [
    [PODS, CALLER],
    [SERVICES, NAME],
  ] as const) {
    await until(
      `${name} is gone`,
      async () => {
        await calls.delete(resource, name, {}).catch(() => undefined);
        return isMissing(calls.get(resource, name));
      },
      LONG,
    );
  }
}

function isMissing(answer: Promise<unknown>): Promise<boolean> {
  return answer.then(
    () => false,
    (error: unknown) => (findFault(error) ?? toKubeFault(error))?.code === "not_found",
  );
}
