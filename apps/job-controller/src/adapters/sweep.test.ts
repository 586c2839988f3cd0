import type { V1Pod } from "@kubernetes/client-node";
import type { CallOptions, KubeObject, KubeResource, ListPage } from "@muster/kube";
import { labels } from "@muster/proto";
import { expect, it } from "vitest";
import { buildOwnerId } from "../domain/build-units.ts";
import { JAXJOB_KIND } from "../domain/kind-jaxjob.ts";
import { toPodFact } from "./read-pod.ts";
import { listLeftoverPods, sweepJobs, reportOnce, type SweepDeps } from "./sweep.ts";

const JOBS: KubeResource = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
const job = (number: number) => ({ name: `train-${number}`, namespace: "default", uid: `${number}a1b2c3d4e5f6071` });
const idOf = (number: number): string => buildOwnerId(job(number));

function podOf(number: number, phase: string): V1Pod {
  return {
    metadata: { namespace: "default", name: `train-${number}-worker-0`, labels: { [labels.owner]: idOf(number) } },
    spec: { containers: [], nodeName: "node-0" },
    status: { phase },
  };
}

const ownerOf = ({ metadata }: V1Pod): string | undefined => metadata?.labels?.[labels.owner];

/**
 * Sweeps with units of jobs 0 to 2 in the ledger, empty caches, and these objects at the API server. Returns the jobs whose machines are released, and the
 * requests.
 */
async function swept(live: {
  readonly jobs?: readonly number[];
  readonly pods?: readonly V1Pod[];
  readonly refused?: number;
  readonly unread?: boolean;
  readonly cached?: readonly V1Pod[];
  /** Deletions of pods fail with this status. */
  readonly deletion?: number;
}) {
  const released: string[] = [];
  const warned: unknown[] = [];
  const asked: { plural: string; limit: unknown }[] = [];
  const objects: Record<string, readonly KubeObject[]> = {
    jobs: (live.jobs ?? []).map((number) => ({ metadata: job(number) })),
    pods: live.pods ?? [],
  };
  const list = <Object extends KubeObject>(
    { plural }: KubeResource,
    { query = {} }: CallOptions = {},
  ): Promise<ListPage<Object>> => {
    asked.push({ plural, limit: query["limit"] });
    if (plural === "refused") return Promise.reject(Object.assign(new Error("refused"), { code: live.refused }));
    const all = objects[plural] ?? [];
    const [from, limit] = [Number(query["continue"] ?? 0), Number(query["limit"] ?? all.length)];
    const next = from + limit;
    // The items in a test have the type that the caller names.
    const items = all.slice(from, next) as Object[];
    return Promise.resolve({ items, resourceVersion: "1", continue: next < all.length ? `${next}` : undefined });
  };
  const deps: SweepDeps = {
    logger: { warn: (about) => warned.push(about) },
    calls: {
      list,
      delete: () =>
        live.deletion === undefined
          ? Promise.resolve()
          : Promise.reject(Object.assign(new Error("not deleted"), { code: live.deletion })),
    },
    kube: { namespace: "default", jobNamespaces: "own" },
    machines: {
      ownerIds: () => new Set([0, 1, 2].map(idOf)),
      unitsOf: (id) => [{ id, state: "granted", nodes: new Map([["worker-0", "node-0"]]) }],
      release: (id) => {
        released.push(id);
        return Promise.resolve();
      },
    },
    nodes: { lostAmong: () => new Map(live.deletion === undefined ? [] : [["node-0", "gone"]]) },
    world: { runningFor: (id) => (live.cached ?? []).filter((pod) => ownerOf(pod) === id).map(toPodFact) },
    kindsUnread: live.unread === true ? [JAXJOB_KIND] : [],
    runtimes: [
      ...(live.refused === undefined
        ? []
        : [{ resource: { ...JOBS, plural: "refused" }, jobs: { byIndex: () => [] } }]),
      { resource: JOBS, jobs: { byIndex: () => [] } },
    ],
  };
  await sweepJobs(deps);
  return { released, asked, warned, left: listLeftoverPods(deps) };
}

it("releases the units of deleted jobs without pods", async () => {
  const { released } = await swept({ pods: [podOf(1, "Succeeded")] });
  expect(released).toEqual([idOf(0), idOf(1), idOf(2)]);
});

it("releases nothing of a job that the API server has, whatever the caches contain", async () => {
  expect((await swept({ jobs: [1] })).released).toEqual([idOf(0), idOf(2)]);
});

it("releases nothing while it may not read a kind, or the API server does not answer for one", async () => {
  await expect(swept({ jobs: [1], refused: 403 })).rejects.toThrow();
  await expect(swept({ jobs: [1], refused: 503 })).rejects.toThrow();
});

it("releases nothing, and reports no pod as left, while an unread kind may have jobs", async () => {
  const cached = [podOf(0, "Running")];
  expect((await swept({ cached })).left.map(({ ownerId }) => ownerId)).toEqual([idOf(0)]);
  expect(await swept({ cached, unread: true })).toEqual({ released: [], asked: [], warned: [], left: [] });
});

it("releases no machine with a pod at the API server that may run, whatever the caches contain", async () => {
  expect((await swept({ pods: [podOf(0, "Running"), podOf(2, "Pending")] })).released).toEqual([idOf(1)]);
});

it("releases other machines if a pod on a lost machine cannot be deleted by force, and reports the pod", async () => {
  const stuck = podOf(0, "Running");
  stuck.metadata = { ...stuck.metadata, uid: "u-0", deletionTimestamp: new Date(0) };
  const { released, warned } = await swept({ cached: [stuck], pods: [stuck], deletion: 500 });
  expect(released).toEqual([idOf(1), idOf(2)]);
  expect(warned).toEqual([expect.objectContaining({ pod: "train-0-worker-0", uid: "u-0" })]);
});

it("reads jobs and pods in pages, and counts all pages", async () => {
  const many = Array.from({ length: 150 }, (_, index) => index + 10);
  const others = Array.from({ length: 90 }, () => podOf(0, "Succeeded"));
  const { released, asked } = await swept({ jobs: [...many, 1], pods: [...others, podOf(2, "Running")] });
  expect(released).toEqual([idOf(0)]);
  expect(asked.every(({ limit }) => limit === 40)).toBe(true);
  expect(asked.map(({ plural }) => plural).sort()).toEqual(["jobs", "jobs", "jobs", "jobs", "pods", "pods", "pods"]);
});

it("reports a pod that has outlived its job once, if it still exists at the next sweep", () => {
  const reports: string[] = [];
  const reportLeft = reportOnce(({ pod }) => reports.push(pod));
  const left = (name: string) => ({
    ...{ ownerId: "orph-1", job: "orph", namespace: "default" },
    ...{ pod: name, uid: name, node: "node-0" },
  });
  reportLeft([left("a"), left("b")]);
  expect(reports).toEqual([]);
  reportLeft([left("a")]);
  reportLeft([left("a"), left("b")]);
  expect(reports).toEqual(["a"]);
});
