import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Deployment, V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { kubeCalls, kubeFault, loadKube } from "@muster/kube";
import { until } from "@muster/testkit";
import { expect } from "vitest";
import { muster } from "./muster-run.ts";
import type { World } from "./stack-world.ts";

type Told = {
  readonly id: string;
  readonly phase: string;
  readonly order: { readonly type: string };
  readonly result?: { readonly state: string; readonly data: string };
};

/** Does nothing, and ends when it is told to. */
const PROGRAM = "process.on('SIGTERM', () => process.exit(0)); setInterval(() => {}, 1000);";
const DATA: Readonly<Record<string, object>> = {
  network: { name: "home", open_ports: [8080] },
  volume: { size: 1, type: "ssd", network: "home" },
  container: {
    image: "node:24-bookworm-slim",
    network: "home",
    entrypoint: ["node", "--eval"],
    args: [PROGRAM],
    env: { GREETING: "hello" },
    secret_env: { TOKEN: "hidden" },
    ports: [8080],
    capacity: { cpu: 1, memory: 1024 },
  },
};

/** Orders one lease of each type that lives in the cluster, looks at what is there, ends them, and waits until nothing of them is left. */
export async function leaseEachType(world: World): Promise<void> {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-lease-"));
  await using calls = kubeCalls(loadKube(world.stack.kubeconfig));
  const key = join(directory.path, "key");
  const done = async (line: string): Promise<string> => {
    const { code, output } = await muster(world, line.split(" "));
    expect(code, `${line}: ${output}`).toBe(0);
    return output;
  };
  await done(`keys new --key-file ${key}`);
  const number = Date.now();
  const documents = Object.entries(DATA).map(([type, data], index) => ({
    apiVersion: "muster.dev/v1",
    kind: "Lease",
    metadata: { name: `${number}-${index + 1}` },
    spec: { type, duration: "1h", data },
  }));
  const file = join(directory.path, "leases.yaml");
  await writeFile(file, documents.map((document) => JSON.stringify(document)).join("\n---\n"));
  await done(`lease order -f ${file} --key-file ${key} --wait --timeout 4m`);

  const told = async (): Promise<Told[]> =>
    JSON.parse(await done(`lease get --mine --key-file ${key} -o json`)) as Told[];
  const leases = await told();
  expect(leases.map(({ order, phase, result }) => [order.type, phase, result?.state])).toEqual(
    Object.keys(DATA).map((type) => [type, "ACTIVE", "ok"]),
  );
  const { namespace } = JSON.parse(leases[0]?.result?.data ?? "null") as { readonly namespace: string };
  const inNetwork = (apiVersion: string, plural: string) => ({ apiVersion, plural, namespace });
  const { items: deployments } = await calls.list<V1Deployment>(inNetwork("apps/v1", "deployments"));
  expect(deployments.map(({ status }) => status?.availableReplicas)).toEqual([1]);
  const { items: claims } = await calls.list<V1PersistentVolumeClaim>(inNetwork("v1", "persistentvolumeclaims"));
  expect(claims).toHaveLength(1);
  // A network waits for what lives in it.
  await done(`lease end ${leases[0]?.id ?? ""} --key-file ${key}`);
  expect(await done(`get lease ${leases[1]?.id ?? ""}`)).toMatch(/^phase +ACTIVE$/m);
  for (const { id } of leases.slice(1)) await done(`lease end ${id} --key-file ${key}`);
  for (const { id } of leases) await done(`wait lease/${id} --for=delete --timeout 4m`);
  expect((await told()).map(({ phase }) => phase)).toEqual(Object.keys(DATA).map(() => "ENDED"));
  await until("the namespace of the network is gone", async () => {
    try {
      await calls.get({ apiVersion: "v1", plural: "namespaces" }, namespace);
      return false;
    } catch (error) {
      return kubeFault(error)?.code === "not_found";
    }
  });
}
