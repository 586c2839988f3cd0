import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1ConfigMap } from "@kubernetes/client-node";
import { startFaultyApi, type FaultyApi } from "@muster/devcluster";
import { makeKubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import { labels } from "@muster/proto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeLeaseObjects } from "../src/adapters/lease-objects.ts";
import type { LeaseObjects } from "../src/types/workload.ts";
import type { ObjectKind } from "../src/types/object-kinds.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { buildLeaseLabels } from "../src/types/lease-names.ts";
import { API_SERVERS } from "./api-servers.ts";

const MAP: ObjectKind = { apiVersion: "v1", kind: "ConfigMap", plural: "configmaps" };
const namespace = "default";
const maps = { ...MAP, namespace };
const PATIENCE = { firstMs: 10, maxMs: 50, totalMs: 60_000 };
const { signal } = new AbortController();

const leaseOf = (id: string, run = 1, user = "user") => makeLeaseRecord({ order: { id, user }, run });
const mapOf = (id: string, says = "") => ({ metadata: { name: `lease-${id}`, namespace }, data: { says } });

describe.each(API_SERVERS)("on $title, an object of a lease", ({ skip, start }) => {
  describe.skipIf(skip)("and found again", () => {
    const cleanup = new AsyncDisposableStack();
    let calls: KubeCalls;
    let objects: LeaseObjects;
    let faults: FaultyApi;

    beforeAll(async () => {
      const server = cleanup.use(await start());
      const directory = cleanup.use(await mkdtempDisposable(join(tmpdir(), "muster-lease-objects-"))).path;
      faults = cleanup.use(await startFaultyApi({ kubeconfig: server.kubeconfig, directory, seed: 1 }));
      calls = cleanup.use(makeKubeCalls(loadKube(faults.kubeconfig)));
      objects = makeLeaseObjects(calls, "muster-1", PATIENCE);
    });

    afterAll(() => cleanup.disposeAsync());

    const find = (id: string) => objects.find<V1ConfigMap>(MAP, { name: `lease-${id}`, namespace }, signal);
    const reported: string[] = [];
    const make = (id: string, says: string, run?: number, user?: string) =>
      objects.ensure<V1ConfigMap>(
        { ...leaseOf(id, run, user), onCreated: (what) => reported.push(what) },
        MAP,
        mapOf(id, says),
        signal,
      );
    const takeDown = (id: string, run = 1) => objects.remove(leaseOf(id, run), { kinds: [MAP], namespace }, signal);
    /** Holds the object of this lease with a finalizer. */
    const hold = (id: string, finalizers: readonly string[]) =>
      calls.patch(maps, `lease-${id}`, { kind: "merge", body: { metadata: { finalizers } } });

    it("is created once, however often and concurrently it is requested", async () => {
      const made = await Promise.all([make("1-1", "one"), make("1-1", "two"), make("1-1", "three")]);
      const again = await make("1-1", "four");
      expect(new Set([...made, again].map(({ metadata }) => metadata?.uid)).size).toBe(1);
      // An answer may be lost: the created object is then found.
      expect(reported.length).toBeLessThanOrEqual(1);
      for (const each of reported) expect(each).toBe("ConfigMap lease-1-1");
      expect(again.metadata?.labels).toEqual({
        ...buildLeaseLabels(leaseOf("1-1")),
        [labels.installation]: "muster-1",
      });
      expect(await objects.list(leaseOf("1-1"), MAP, namespace, signal)).toHaveLength(1);
      expect(await objects.list(leaseOf("1-1", 2), MAP, namespace, signal)).toEqual([]);
    });

    it("is never taken from another owner, nor removed with another lease's", async () => {
      await make("2-1", "theirs", 1, "other user");
      await expect(make("2-1", "ours")).rejects.toMatchObject({
        fault: { code: "already_exists", kind: "ConfigMap", id: "lease-2-1" },
      });
      await calls.create(maps, mapOf("2-2", "foreign"));
      await expect(make("2-2", "ours")).rejects.toMatchObject({ fault: { code: "already_exists" } });
      await takeDown("2-1");
      await takeDown("2-2");
      expect([(await find("2-1"))?.data, (await find("2-2"))?.data]).toEqual([{ says: "theirs" }, { says: "foreign" }]);
    });

    it("replaces that of an earlier run, and leaves that of a later run unchanged", async () => {
      await make("3-1", "first", 1);
      expect((await make("3-1", "second", 2)).data).toEqual({ says: "second" });
      await expect(make("3-1", "late", 1)).rejects.toMatchObject({ fault: { code: "conflict" } });
      await takeDown("3-1", 1);
      expect((await find("3-1"))?.data).toEqual({ says: "second" });
      await takeDown("3-1", 3);
      expect(await find("3-1")).toBeUndefined();
      await takeDown("3-1", 3);
    });

    it("is gone once it is removed, and a finalizer that holds it is reported", async () => {
      await make("4-1", "held");
      await hold("4-1", ["muster.dev/test"]);
      const impatient = makeLeaseObjects(calls, "muster-1", { ...PATIENCE, totalMs: 0 });
      await expect(impatient.remove(leaseOf("4-1"), { kinds: [MAP], namespace }, signal)).rejects.toThrow(
        "the removal of ConfigMap lease-4-1",
      );
      const taken = takeDown("4-1");
      const remade = make("4-1", "again", 2);
      await hold("4-1", []);
      await taken;
      expect((await remade).data).toEqual({ says: "again" });
    });

    it("fails permanently with the message of a server that refuses it, and else retryably", async () => {
      const lease = leaseOf("5-1");
      const make5 = (object: ReturnType<typeof mapOf>) => objects.ensure(lease, MAP, object, signal);
      await expect(make5({ ...mapOf("5-1"), data: { says: "x", "a b": "y" } as never })).rejects.toMatchObject({
        fault: { code: "invalid_request", reason: expect.stringContaining("a b") as unknown },
      });
      await expect(
        make5({ ...mapOf("5-1"), metadata: { name: "lease-5-1", namespace: "nowhere" } }),
      ).rejects.toMatchObject({ fault: { code: "not_found" } });
      for (const code of [429, 500, 503] as const) {
        await faults.inject({ id: "ill", match: { verbs: ["create"] }, fault: { do: "answer", code }, times: 1 });
        await expect(make("5-2", "x")).rejects.toMatchObject({ fault: { code: "unavailable" } });
        await faults.remove("ill");
      }
      await faults.inject({ id: "lost", match: { verbs: ["create"] }, fault: { do: "lose-answer" }, times: 1 });
      await expect(make("5-2", "lost")).rejects.toMatchObject({ fault: { code: "unavailable" } });
      expect((await make("5-2", "again")).data).toEqual({ says: "lost" });
      await faults.goAway(600_000);
      await expect(takeDown("5-2")).rejects.toMatchObject({ fault: { code: "unavailable" } });
      await faults.comeBack();
      await takeDown("5-2");
      const stop = AbortSignal.abort();
      await expect(objects.ensure(lease, MAP, mapOf("5-3"), stop)).rejects.toMatchObject({ name: "AbortError" });
    });
  });
});
