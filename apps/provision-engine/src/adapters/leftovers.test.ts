import type { KubeCalls, KubeObject } from "@muster/kube";
import { labels } from "@muster/proto";
import { expect, it } from "vitest";
import { openCleaner } from "../lead/cleaner.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import { buildLeaseLabels } from "../types/lease-names.ts";
import { openLeftovers } from "./leftovers.ts";

const { signal } = new AbortController();
const ofLease = buildLeaseLabels(makeLeaseRecord({ order: { id: "1-1" } }));
const object = (name: string, namespace: string | undefined, itsLabels: Record<string, string> = ofLease) => ({
  metadata: { name, uid: name, labels: itsLabels, ...(namespace !== undefined && { namespace }) },
});
type Lists = Record<string, readonly KubeObject[] | "refused">;

/** A namespace that one sweep found left over, in a cluster whose lists a test changes; all records are missing. */
async function leftNamespace() {
  const lists: Lists = { namespaces: [object("net", undefined)] };
  const removed: string[] = [];
  const left: string[] = [];
  let listed: (plural: string) => void = () => undefined;
  const calls: Pick<KubeCalls, "list" | "delete"> = {
    list: ({ plural, namespace }) => {
      listed(namespace === undefined ? plural : `${namespace}/${plural}`);
      const found = lists[plural] ?? [];
      if (found === "refused") return Promise.reject(new Error("no answer"));
      const items = found.filter(({ metadata }) => namespace === undefined || metadata?.namespace === namespace);
      return Promise.resolve({ items: items as never[], resourceVersion: "1", continue: undefined });
    },
    delete: ({ plural }, name) => {
      removed.push(`${plural} ${name}`);
      return Promise.resolve();
    },
  };
  let nowMs = 0;
  const cleaner = openCleaner(
    {
      leftovers: openLeftovers(calls as KubeCalls, "muster-1", () => undefined),
      records: { get: () => Promise.resolve(undefined) },
      nowMs: () => nowMs,
      census: () => Promise.resolve({ records: 1, bucketCreatedMs: 0 }),
      policy: { engine: "main", graceMs: 1000, mode: "off", everyMs: 1000, maxObjects: 10, maxPercent: 100 },
      report: {
        step: () => undefined,
        brake: () => undefined,
        leftAlone: (installations) => void left.push(installations.join(" ")),
        notRemoved: () => undefined,
        failed: () => undefined,
      },
    },
    0,
  );
  const stop = new AbortController();
  const running = cleaner.run(stop.signal);
  await cleaner.sweep({ isDryRun: false, confirmed: 0 }, signal);
  nowMs += 1000;
  return {
    lists,
    left,
    pass: () => (nowMs += 1000),
    onListed: (listener: (what: string) => void) => (listed = listener),
    look: async () => {
      await cleaner.sweep({ isDryRun: false, confirmed: 0 }, signal);
      return removed;
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
    },
  };
}

const pod = { ...object("pod", "net", {}), spec: { containers: [], volumes: [] } };

it("removes an empty leftover namespace", async () => {
  await using world = await leftNamespace();
  expect(await world.look()).toEqual(["namespaces net"]);
});

it.each<[string, Lists]>([
  ["claims cannot be listed", { persistentvolumeclaims: "refused" }],
  ["some kind cannot be listed", { deployments: "refused" }],
  ["pods cannot be listed", { pods: "refused" }],
  [
    "a claim in it belongs to no lease",
    { persistentvolumeclaims: [object("data", "net", { [labels.managedBy]: "user" })] },
  ],
  ["a claim in it has just been created", { persistentvolumeclaims: [object("data", "net")] }],
  ["a pod runs in it", { pods: [pod] }],
])("keeps a namespace if %s, in the sweep and just before the removal", async (_what, lists) => {
  await using world = await leftNamespace();
  Object.assign(world.lists, lists);
  expect(await world.look()).toEqual([]);
  await using later = await leftNamespace();
  // The sweep lists each kind once, so only the check before a removal observes later objects.
  later.onListed((what) => what.startsWith("net/") && Object.assign(later.lists, lists));
  expect(await later.look()).toEqual([]);
});

it("leaves objects of another installation unchanged, also in a namespace of ours, and reports it", async () => {
  const theirs = { ...ofLease, [labels.installation]: "muster-2" };
  const ours = { ...ofLease, [labels.installation]: "muster-1" };
  await using world = await leftNamespace();
  Object.assign(world.lists, {
    namespaces: [object("net", undefined), object("other", undefined, theirs)],
    secrets: [object("in-ours", "net", theirs)],
    services: [object("own", "default", ours)],
  });
  await world.look();
  world.pass();
  expect(await world.look()).toEqual(["services own"]);
  expect(world.left).toEqual(["", "muster-2 muster-2", "muster-2 muster-2"]);
  world.lists["secrets"] = [];
  expect(await world.look()).toEqual(["services own", "services own", "namespaces net"]);
});

it("ignores labels in a slice, which its user writes: they neither mark leftovers nor keep anything", async () => {
  await using world = await leftNamespace();
  const forged = Array.from({ length: 60 }, (_, at) => object(`forged-${at}`, "muster-lease-9-9"));
  Object.assign(world.lists, { secrets: forged, namespaces: [object("muster-lease-9-9", undefined)] });
  await world.look();
  world.pass();
  expect(await world.look()).toEqual(["namespaces muster-lease-9-9"]);
});

it("keeps a claim that a pod has begun to use since the sweep", async () => {
  await using world = await leftNamespace();
  const claim = object("data", "net");
  world.lists["persistentvolumeclaims"] = [claim];
  await world.look();
  const using = { ...pod, spec: { containers: [], volumes: [{ persistentVolumeClaim: { claimName: "data" } }] } };
  world.onListed((what) => what.startsWith("net/") && (world.lists["pods"] = [using]));
  expect(await world.look()).toEqual([]);
});
