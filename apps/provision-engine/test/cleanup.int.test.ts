import { makeKubeCalls, loadKube, unlessFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ObjectKind, KINDS } from "../src/types/object-kinds.ts";
import { makeRecords, openLeases } from "../src/adapters/records.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { buildLeaseLabels } from "../src/types/lease-names.ts";
import { EMBEDDED } from "./api-servers.ts";
import { openEngineWorld, LASTING_LEAD, LONG, nowNs, waitUntilReady, type EngineWorld } from "./engine-world.ts";

const cleanup = new AsyncDisposableStack();
const namespace = "default";
let world: EngineWorld;
let calls: KubeCalls;

beforeAll(async () => {
  const server = cleanup.use(await EMBEDDED.start());
  calls = cleanup.use(makeKubeCalls(loadKube(server.kubeconfig)));
  world = cleanup.use(await openEngineWorld());
  await world.startEngine({
    ...LASTING_LEAD,
    MUSTER_KUBECONFIG: server.kubeconfig,
    PROVISION_CLEANUP: "off",
    PROVISION_CLEANUP_GRACE_MS: "0",
    PROVISION_CLEANUP_MOST: "2",
  });
  await waitUntilReady(world);
}, 300_000);

afterAll(() => cleanup.disposeAsync());

const create = (kind: ObjectKind, id: string, more: object = {}) =>
  calls.create<KubeObject>(
    { ...kind, namespace },
    {
      apiVersion: kind.apiVersion,
      kind: kind.kind,
      metadata: { name: `lease-${id}`, namespace, labels: buildLeaseLabels(makeLeaseRecord({ order: { id } })) },
      ...more,
    },
  );
const isThere = async (kind: ObjectKind, id: string): Promise<boolean> =>
  (await unlessFault(calls.get({ ...kind, namespace }, `lease-${id}`), "not_found")) !== undefined;
const look = (dryRun: boolean, confirm = 3) =>
  until(
    "the leader looks",
    () => world.leases.cleanupResources({ requestId: "c", engine: "main", dryRun, confirm }),
    LONG,
  );
const names = (steps: readonly { readonly kind?: string | null; readonly name?: string | null }[]) =>
  steps.map(({ kind, name }) => `${kind ?? ""} ${name ?? ""}`).toSorted();

it("removes leftovers in the second sweep, no more than an operator confirms, and keeps objects that are desired, mounted or without an owner", async () => {
  const records = makeRecords(await openLeases(world.bus.connection));
  const order = { createdNs: nowNs(), durationNs: 3_600_000_000_000n };
  await records.create(makeLeaseRecord({ order: { id: "1-1", ...order }, fence: 0 }));
  await records.create(
    makeLeaseRecord({ order: { id: "1-2", ...order }, phase: "ENDED", endedAtNs: nowNs(), fence: 0 }),
  );
  for (const id of ["1-1", "1-2", "1-3"]) await create(KINDS.secret, id);
  const claim = { spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } } };
  for (const id of ["1-4", "1-5"]) await create(KINDS.volumeClaim, id, claim);
  const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "lease-1-4" } }];
  const pod = { metadata: { name: "user" }, spec: { containers: [{ name: "main", image: "node" }], volumes } };
  await calls.create({ ...KINDS.pod, namespace }, pod);
  await calls.create({ ...KINDS.secret, namespace }, { metadata: { name: "lease-1-6" } });

  const expected = ["PersistentVolumeClaim lease-1-5", "Secret lease-1-2", "Secret lease-1-3"];
  const first = await look(false);
  expect(names(first.steps)).toEqual(expected);
  expect(first).toMatchObject({ found: 5, suspected: 3, removed: 0 });
  const held = await look(false, 0);
  expect(held).toMatchObject({
    suspected: 3,
    removed: 0,
    heldBecause: expect.stringContaining("more than 2") as unknown,
  });
  expect(await world.leases.getCleanup({ engine: "main" })).toMatchObject({ heldBecause: held.heldBecause, held: 3 });
  const dry = await look(true);
  expect(dry).toMatchObject({ removed: 3, heldBecause: "" });
  for (const id of ["1-1", "1-2", "1-3"]) expect(await isThere(KINDS.secret, id)).toBe(true);
  const second = await look(false);
  expect(names(second.steps)).toEqual(expected);
  expect(second).toMatchObject({ suspected: 0, removed: 3 });
  await until(
    "they are gone",
    async () => !(await isThere(KINDS.secret, "1-2")) && !(await isThere(KINDS.secret, "1-3")),
  );
  expect(await isThere(KINDS.secret, "1-1")).toBe(true);
  expect(await isThere(KINDS.secret, "1-6")).toBe(true);
  expect(await isThere(KINDS.volumeClaim, "1-4")).toBe(true);
});
