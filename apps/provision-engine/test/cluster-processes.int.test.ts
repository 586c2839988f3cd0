import { existsSync } from "node:fs";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startDevCluster } from "@muster/devcluster";
import { makeKubeCalls, loadKube } from "@muster/kube";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  makeUser,
  openEngineWorld,
  LONG,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
} from "./engine-world.ts";

/** Prints its arguments and runs until a signal. */
const SCRIPT = `printf %s "$SECRET" > "$FILES/runs"; until [ -e "$FILES/exit" ]; do sleep 0.1; done; rm "$FILES/exit"; exit 3`;

it("runs a container as ordered once a node is in no pool, counts its exit, and ends it", async () => {
  await using cleanup = new AsyncDisposableStack();
  const directory = cleanup.use(await mkdtempDisposable(join(tmpdir(), "muster-lease-processes-"))).path;
  const cluster = cleanup.use(
    await startDevCluster({
      directory: join(directory, "cluster"),
      pools: [{ name: "n", nodes: 1 }],
      stopGraceMs: 200,
    }),
  );
  const world = cleanup.use(await openEngineWorld());
  await world.startEngine({ MUSTER_KUBECONFIG: cluster.kubeconfig });
  await waitUntilReady(world);
  const user = makeUser();
  const secret = 'a "$(PATH)" $$ \\ secret';
  const data = {
    image: "shell",
    entrypoint: ["sh", "-c", SCRIPT],
    env: { FILES: directory },
    secret_env: { SECRET: secret },
    capacity: { cpu: 1, memory: 1024 },
  };
  await sendOrder(world, signOrder(user, { id: "1-1", type: "container", data: JSON.stringify(data) }));
  const waiting = async () => (await world.leases.getLease({ id: "1-1" })).lease?.waitingBecause ?? "";
  const nodes = 'it runs on nodes without the label "pool" (PROVISION_CONTAINER_POOLS)';
  await until("it waits for a node outside of pools", async () => (await waiting()).includes(nodes), LONG);
  const calls = cleanup.use(makeKubeCalls(loadKube(cluster.kubeconfig)));
  const [{ nodeName }] = cluster.nodes as [{ nodeName: string }];
  const patch = { kind: "merge" as const, body: { metadata: { labels: { pool: null } } } };
  await calls.patch({ apiVersion: "v1", plural: "nodes" }, nodeName, patch);
  await waitForPhase(world, "1-1", "ACTIVE");
  await until(
    "it reports its configuration",
    async () => (await readFile(join(directory, "runs"), "utf8")) === secret,
    LONG,
  );
  await writeFile(join(directory, "exit"), "");
  const crashes = async () => (await world.leases.getLease({ id: "1-1" })).lease?.record?.crashes;
  await until("its end is counted", async () => (await crashes())?.exits === 1, LONG);
  expect(existsSync(join(directory, "exit"))).toBe(false);
  expect(await readPhase(world, "1-1")).toBe("ACTIVE");
  await world.leases.endLease({ requestId: "e", end: signEnd(user, "1-1") });
  await waitForPhase(world, "1-1", "ENDED");
}, 300_000);
