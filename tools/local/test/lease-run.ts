import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1PersistentVolume, V1Pod } from "@kubernetes/client-node";
import { makeKubeCalls, loadKube, openPodLog, unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import type { LeaseType } from "@muster/leases/data";
import { labels } from "@muster/proto";
import { until } from "@muster/testkit";
import { expect } from "vitest";
import { LEASE_CASES } from "./lease-cases.ts";
import { holders, PATIENCE, type LeaseWorld, type Result, type Where } from "./active-lease.ts";
import { runMuster } from "./muster-run.ts";
import type { World } from "./stack-world.ts";

const TYPES = Object.keys(LEASE_CASES) as LeaseType[];
/** Types whose pods keep data on a disk. */
const WITH_DISK: readonly LeaseType[] = ["container", "zdb"];
const LIFE = ["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"];
const PODS = { apiVersion: "v1", plural: "pods" };
const NAMESPACES = { apiVersion: "v1", plural: "namespaces" };
/** Resources that the engine creates for leases. */
const KINDS = [
  PODS,
  NAMESPACES,
  { apiVersion: "v1", plural: "persistentvolumeclaims" },
  { apiVersion: "v1", plural: "secrets" },
  { apiVersion: "v1", plural: "services" },
  { apiVersion: "v1", plural: "resourcequotas" },
  { apiVersion: "apps/v1", plural: "deployments" },
  { apiVersion: "apps/v1", plural: "statefulsets" },
  { apiVersion: "networking.k8s.io/v1", plural: "networkpolicies" },
];

type LeaseJson = {
  readonly id: string;
  readonly phase: string;
  readonly order: { readonly type: LeaseType };
  readonly result?: { readonly state: string; readonly data: string };
};

/** One lease of each type, all of one new user. */
export type LeaseRun = AsyncDisposable & {
  readonly idOf: (type: LeaseType) => string;
  readonly phaseOf: (type: LeaseType) => Promise<string | undefined>;
  /** Orders all leases, waits until they are active, and checks the objects of each. */
  readonly order: () => Promise<void>;
  /** Deletes the pods that have disks, and waits until new pods continue with the data. */
  readonly replacePods: () => Promise<void>;
  /**
   * Ends all leases, the network first, which waits for the leases in it. Resolves when none of their objects exists and their histories are complete.
   */
  readonly end: () => Promise<void>;
};

/** Leases on a stack of local processes. */
export function ofStack(world: Pick<World, "stack">, { isRealCluster }: Pick<LeaseWorld, "isRealCluster">): LeaseWorld {
  return {
    kubeconfig: world.stack.kubeconfig,
    isRealCluster,
    pool: "workers",
    muster: async (words) => {
      const { code, output } = await runMuster(world, words.split(" "));
      expect(code, `${words}: ${output}`).toBe(0);
      return output;
    },
  };
}

export async function startLeaseRun(world: LeaseWorld): Promise<LeaseRun> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-lease-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const config = loadKube(world.kubeconfig);
  const calls = starting.use(makeKubeCalls(config));
  const key = join(directory, "key");
  await world.muster(`keys new --key-file ${key}`);
  const number = Date.now();
  const idOf = (type: LeaseType): string => `${number}-${TYPES.indexOf(type) + 1}`;

  const listLeases = async (): Promise<readonly LeaseJson[]> =>
    JSON.parse(await world.muster(`lease get --mine --key-file ${key} -o json`)) as LeaseJson[];
  const leaseOf = async (type: LeaseType) => (await listLeases()).find(({ order }) => order.type === type);
  /** Results of the leases, once all are active. */
  const results = new Map<LeaseType, Result>();
  const resultOf = (type: LeaseType): Result => results.get(type) ?? {};
  const podsOf = async ({ namespace, lease }: Where): Promise<readonly V1Pod[]> => {
    const query = { labelSelector: lease === undefined ? undefined : `${labels.lease}=${lease}` };
    const { items } = await calls.list<V1Pod & KubeObject>({ ...PODS, namespace }, { query });
    return items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  };
  const outputOf = (where: Where): Promise<unknown> =>
    until(
      `the pod of ${where.lease ?? where.namespace} has logged a line`,
      async () => {
        const [pod] = await podsOf(where);
        const container = pod?.spec?.containers[0]?.name ?? "";
        const log = { namespace: where.namespace, pod: pod?.metadata?.name ?? "", container };
        let text = "";
        for await (const part of openPodLog(config, log, {}, AbortSignal.timeout(20_000)))
          text += Buffer.from(part).toString();
        return text.includes("\n") && (JSON.parse(text.slice(0, text.indexOf("\n"))) as object | string);
      },
      PATIENCE,
    );
  const placeOf = (type: LeaseType) => ({ namespace: String(resultOf(type)["namespace"]), lease: idOf(type) });
  let entered = 0;

  const expectActive = async (type: LeaseType): Promise<void> => {
    const id = idOf(type);
    await LEASE_CASES[type].expectActive({
      world,
      id,
      calls,
      resultOf,
      outputOf,
      result: resultOf(type),
      output: () => outputOf(placeOf(type)),
      secret: (field) => world.muster(`lease get ${id} --secret ${field} --key-file ${key}`),
      enter: async (text) => {
        const file = join(directory, `${++entered}.kubeconfig`);
        await writeFile(file, text, { mode: 0o600 });
        return all.use(makeKubeCalls(loadKube(file)));
      },
    });
  };
  const order = async (): Promise<void> => {
    const documents = TYPES.map((type) => ({
      apiVersion: "muster.dev/v1",
      kind: "Lease",
      metadata: { name: idOf(type) },
      spec: { type, duration: "1h", data: LEASE_CASES[type].data(world, idOf) },
    }));
    const file = join(directory, "leases.yaml");
    await writeFile(file, documents.map((document) => JSON.stringify(document)).join("\n---\n"));
    await world.muster(`lease order -f ${file} --key-file ${key} --wait --timeout 4m`);
    const active = await listLeases();
    const states = active.map((each) => [each.order.type, each.phase, each.result?.state]);
    expect(states.sort()).toEqual(TYPES.map((type) => [type, "ACTIVE", "ok"]).sort());
    for (const { order, result } of active) results.set(order.type, JSON.parse(result?.data ?? "null") as Result);
    for (const type of TYPES) await expectActive(type);
  };
  const replacePods = async (): Promise<void> => {
    for (const type of WITH_DISK) {
      const place = placeOf(type);
      for (const { metadata } of await podsOf(place)) await calls.delete({ ...PODS, ...place }, metadata?.name ?? "");
      const isRestarted = async () => ((await outputOf(place)) as { readonly starts: number }).starts === 2;
      await until(`${type} continues with its disk`, isRestarted, PATIENCE);
    }
  };
  const end = async (): Promise<void> => {
    await world.muster(`lease end ${idOf("network")} --force --key-file ${key}`);
    expect((await leaseOf("volume"))?.phase).toBe("ACTIVE");
    const rest = TYPES.filter((type) => type !== "network");
    await Promise.all(rest.map((type) => world.muster(`lease end ${idOf(type)} --force --key-file ${key}`)));
    const ended = async () => (await listLeases()).every(({ phase }) => phase === "ENDED");
    await until("all have ended", ended, PATIENCE);
    await until(
      "no object of the leases exists",
      async () => (await leftovers(calls, TYPES.map(idOf))).length === 0,
      PATIENCE,
    );
    expect(await holders(world)).not.toContain(`lease/${idOf("machine")}-1`);
    await Promise.all(TYPES.map((type) => expectLife(world, idOf(type))));
  };

  const all = starting.move();
  return {
    idOf,
    phaseOf: async (type) => (await leaseOf(type))?.phase,
    order,
    replacePods,
    end,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Names of all objects of these leases, in all namespaces, including the volumes of their claims. */
async function leftovers(calls: KubeCalls, ids: readonly string[]): Promise<readonly string[]> {
  const query = { labelSelector: `${labels.lease} in (${ids.join(",")})` };
  const lists = await Promise.all(KINDS.map((kind) => calls.list<KubeObject>(kind, { query })));
  const found = lists.flatMap(({ items }) => items.map(({ metadata }) => metadata?.name ?? ""));
  const volumes = { apiVersion: "v1", plural: "persistentvolumes" };
  // The embedded API server has no persistent volumes.
  const known = (await unlessMissing(calls.list<V1PersistentVolume & KubeObject>(volumes)))?.items ?? [];
  const claimed = known.filter(({ spec }) => ids.some((id) => spec?.claimRef?.name === `lease-${id}`));
  return [...found, ...claimed.map(({ metadata }) => metadata?.name ?? "")];
}

async function expectLife(world: LeaseWorld, id: string): Promise<void> {
  const life = async (): Promise<readonly string[]> => {
    const events = JSON.parse(await world.muster(`lease history ${id} -o json`)) as { readonly event: string }[];
    // A slow machine may add events of delays and troubles.
    return events.map(({ event }) => event).filter((event) => LIFE.includes(event));
  };
  await until(`the history of ${id} has its end`, async () => (await life()).includes("DECOMMISSIONED"), PATIENCE);
  expect(await life()).toEqual(LIFE);
}
