import type { V1LabelSelector, V1PodDisruptionBudget } from "@kubernetes/client-node";
import { KubeError, toKubeFault, type KubeCalls } from "@muster/kube";
import { describe, expect, it } from "vitest";
import { KIND, NAMESPACE, testJob } from "../../test/member-world.ts";
import { buildJobLabels } from "../domain/member-labels.ts";
import { buildOwnerReference } from "../domain/ownership.ts";
import { deleteBudget, syncBudget } from "./budget.ts";
import {
  deletePodGroup,
  POD_GROUP_KINDS,
  findPodGroupDifference,
  findServedPodGroupKinds,
  syncPodGroup,
} from "./pod-group.ts";

const job = testJob("mnist").metadata;
const labels = buildJobLabels(KIND.labelKeys, job);
const owner = buildOwnerReference(KIND, job);
const mayAdopt = { labels, owner, canAdopt: () => Promise.resolve() };
const notFound = new KubeError("GET", 404, { reason: "NotFound" });

/** A cluster with at most one object. */
function world(there?: object | Error) {
  const events: string[] = [];
  const writes: unknown[] = [];
  const write = (what: unknown) => {
    writes.push(what);
    return Promise.resolve(undefined as never);
  };
  const calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete"> = {
    get: () =>
      there === undefined || there instanceof Error
        ? Promise.reject(there ?? notFound)
        : Promise.resolve(there as never),
    create: (resource, object) => write({ create: resource.plural, object }),
    patch: (_resource, name, { kind, body }) => write({ patch: name, kind, body }),
    delete: (_resource, name, options) => write({ delete: name, uid: options?.preconditions?.uid }),
  };
  const report = (type: string, reason: string): void => void events.push(`${type} ${reason}`);
  return { deps: { calls, report }, events, writes };
}

const budget = (more: Partial<V1PodDisruptionBudget["metadata"]> = {}, minAvailable = 3): V1PodDisruptionBudget => ({
  metadata: {
    name: "mnist",
    namespace: NAMESPACE,
    uid: "u",
    resourceVersion: "7",
    labels,
    ownerReferences: [owner],
    ...more,
  },
  spec: { minAvailable, selector: { matchLabels: labels } },
});

describe("syncBudget", () => {
  it("creates a budget that selects the job's pods and belongs to the job", async () => {
    const { deps, events, writes } = world();
    expect(await syncBudget(deps, job, 3, mayAdopt)).toBe("created");
    expect(writes).toEqual([
      {
        create: "poddisruptionbudgets",
        object: {
          apiVersion: "policy/v1",
          kind: "PodDisruptionBudget",
          metadata: { name: "mnist", namespace: NAMESPACE, labels, ownerReferences: [owner] },
          spec: { minAvailable: 3, selector: { matchLabels: labels } },
        },
      },
    ]);
    expect(events).toEqual(["Normal SuccessfulCreatePdb"]);
  });

  it("does not read an object that the caller reports as absent, and reads it if it exists after all", async () => {
    const { deps, writes } = world(new Error("an unexpected read"));
    expect(await syncBudget(deps, job, 3, { ...mayAdopt, isAbsent: true })).toBe("created");
    expect(writes).toHaveLength(1);
    const taken = world(budget());
    const exists = new KubeError("POST", 409, { reason: "AlreadyExists" });
    const calls = { ...taken.deps.calls, create: () => Promise.reject(exists) };
    expect(await syncBudget({ ...taken.deps, calls }, job, 3, { ...mayAdopt, isAbsent: true })).toBe("kept");
    expect(taken.events).toEqual([]);
  });

  it("writes nothing if the job's own budget is correct", async () => {
    const { deps, events, writes } = world(budget());
    expect(await syncBudget(deps, job, 3, mayAdopt)).toBe("kept");
    expect([writes, events]).toEqual([[], []]);
  });

  it("changes the number when the job grew, and only on the version that it read", async () => {
    const { deps, writes } = world(budget());
    expect(await syncBudget(deps, job, 5, mayAdopt)).toBe("updated");
    expect(writes).toEqual([
      {
        patch: "mnist",
        kind: "merge",
        body: { spec: { minAvailable: 5, maxUnavailable: null }, metadata: { uid: "u", resourceVersion: "7" } },
      },
    ]);
  });

  it.each<[string, V1LabelSelector | undefined, object]>([
    ["none at all", undefined, labels],
    ["other pods", { matchLabels: { app: "other" } }, { app: null, ...labels }],
    ["fewer pods", { matchLabels: { ...labels, tier: "front" } }, { tier: null, ...labels }],
    ["more pods", { matchLabels: {} }, labels],
    ["pods by an expression", { matchLabels: labels, matchExpressions: [{ key: "a", operator: "Exists" }] }, labels],
  ])("restores a selector that a user changed to select %s", async (_title, selector, matchLabels) => {
    const edited = { ...budget(), spec: { minAvailable: 3, ...(selector !== undefined && { selector }) } };
    const { deps, writes } = world(edited);
    expect(await syncBudget(deps, job, 3, mayAdopt)).toBe("updated");
    const spec = { minAvailable: 3, maxUnavailable: null, selector: { matchLabels, matchExpressions: null } };
    expect(writes).toMatchObject([{ patch: "mnist", kind: "merge", body: { spec } }]);
  });

  it("adopts an orphan with the job's labels and keeps its other owners", async () => {
    const other = { ...owner, uid: "other", controller: false };
    const { deps, writes } = world(budget({ ownerReferences: [other] }));
    expect(await syncBudget(deps, job, 3, mayAdopt)).toBe("adopted");
    expect(writes).toMatchObject([{ body: { metadata: { ownerReferences: [other, owner] } } }]);
  });

  it("adopts nothing for a job that may not adopt", async () => {
    const { deps, writes } = world(budget({ ownerReferences: [] }));
    const refused = syncBudget(deps, job, 3, { ...mayAdopt, canAdopt: () => Promise.reject(new Error("it is gone")) });
    await expect(refused).rejects.toThrow("it is gone");
    expect(writes).toEqual([]);
  });

  it.each<[string, V1PodDisruptionBudget, string[]]>([
    ["another owner's", budget({ ownerReferences: [{ ...owner, uid: "other" }] }), ["Warning FailedCreatePdb"]],
    ["an orphan with other labels", budget({ ownerReferences: [], labels: {} }), ["Warning FailedCreatePdb"]],
    ["its own that is still being deleted", budget({ deletionTimestamp: new Date(0) }), []],
  ])("does not change %s, and reports it", async (_whose, there, reported) => {
    const { deps, events, writes } = world(there);
    const error: unknown = await syncBudget(deps, job, 5, mayAdopt).catch((reason: unknown) => reason);
    expect(toKubeFault(error)?.code).toBe("conflict");
    expect([writes, events]).toEqual([[], reported]);
  });

  it("fails when the budget cannot be read", async () => {
    const { deps, writes } = world(new KubeError("GET", 500, {}));
    await expect(syncBudget(deps, job, 3, mayAdopt)).rejects.toThrow("500");
    expect(writes).toEqual([]);
  });

  it("reports a missing right to create one", async () => {
    const { deps, events } = world();
    const calls = { ...deps.calls, create: () => Promise.reject(new KubeError("POST", 403, {})) };
    await expect(syncBudget({ ...deps, calls }, job, 3, mayAdopt)).rejects.toThrow("403");
    expect(events).toEqual(["Warning FailedCreatePdb"]);
  });
});

describe("deleteBudget", () => {
  it("deletes the job's own budget, by its uid", async () => {
    const { deps, events, writes } = world(budget());
    expect(await deleteBudget(deps, job)).toBe(true);
    expect([writes, events]).toEqual([[{ delete: "mnist", uid: "u" }], ["Normal SuccessfulDeletePdb"]]);
  });

  it.each<[string, V1PodDisruptionBudget | undefined]>([
    ["is missing", undefined],
    ["is another owner's", budget({ ownerReferences: [] })],
    ["is on its way out", budget({ deletionTimestamp: new Date(0) })],
  ])("does nothing if the budget %s", async (_what, there) => {
    const { deps, events, writes } = world(there);
    expect(await deleteBudget(deps, job)).toBe(false);
    expect([writes, events]).toEqual([[], []]);
  });

  it("reports a refusal", async () => {
    const { deps, events } = world(budget());
    const calls = { ...deps.calls, delete: () => Promise.reject(new KubeError("DELETE", 403, {})) };
    await expect(deleteBudget({ ...deps, calls }, job)).rejects.toThrow("403");
    expect(events).toEqual(["Warning FailedDeletePdb"]);
  });
});

describe("a pod group", () => {
  const serving = (...apiVersions: string[]): Pick<KubeCalls, "list"> => ({
    list: ({ apiVersion }) =>
      apiVersions.includes(apiVersion)
        ? Promise.resolve({ items: [], resourceVersion: "1", continue: undefined })
        : Promise.reject(notFound),
  });

  it("is of the kind that the cluster serves, or of none", async () => {
    const { schedulerPlugins, volcano } = POD_GROUP_KINDS;
    expect(await findServedPodGroupKinds(serving(), NAMESPACE)).toEqual([]);
    expect(await findServedPodGroupKinds(serving(volcano.apiVersion), NAMESPACE)).toEqual([volcano]);
    expect(await findServedPodGroupKinds(serving(volcano.apiVersion, schedulerPlugins.apiVersion), NAMESPACE)).toEqual([
      schedulerPlugins,
      volcano,
    ]);
  });

  it("is of no kind that the caller may not list, and of an unknown one while the API server does not answer", async () => {
    const refusing = (status: number) => ({ list: () => Promise.reject(new KubeError("GET", status, {})) });
    expect(await findServedPodGroupKinds(refusing(403), NAMESPACE)).toEqual([]);
    await expect(findServedPodGroupKinds(refusing(503), NAMESPACE)).rejects.toThrow("503");
  });

  const minResources = { cpu: "8", "nvidia.com/gpu": 4 };
  it.each([
    [POD_GROUP_KINDS.volcano, { minMember: 4, queue: "night", priorityClassName: "high", minResources }],
    [POD_GROUP_KINDS.schedulerPlugins, { minMember: 4, minResources, scheduleTimeoutSeconds: 60 }],
  ])("is created with the fields of its scheduler: %o", async (kind, spec) => {
    const { deps, writes } = world();
    const all = { queue: "night", priorityClassName: "high", minResources, scheduleTimeoutSeconds: 60 };
    expect(await syncPodGroup(deps, job, kind, { minMember: 4, ...all }, mayAdopt)).toBe("created");
    expect(writes).toMatchObject([{ create: "podgroups", object: { apiVersion: kind.apiVersion, spec } }]);
  });

  it("follows the number of members, and keeps the queue to which an operator moved it", async () => {
    const group = { metadata: budget().metadata, spec: { minMember: 4, queue: "day" } };
    const { deps, writes } = world(group);
    const kind = POD_GROUP_KINDS.volcano;
    expect(await syncPodGroup(deps, job, kind, { minMember: 4, queue: "night" }, mayAdopt)).toBe("kept");
    expect(await syncPodGroup(deps, job, kind, { minMember: 6, queue: "night" }, mayAdopt)).toBe("updated");
    expect(writes).toMatchObject([{ body: { spec: { minMember: 6 } } }]);
    expect(await deletePodGroup(deps, job, kind)).toBe(true);
  });

  it("follows the requested settings of its scheduler, and changes no other", () => {
    const { fields } = POD_GROUP_KINDS.volcano;
    const there = { minMember: 4, queue: "day", minResources: { cpu: "8", memory: "1Gi" } };
    expect(findPodGroupDifference(there, { minMember: 4 }, fields)).toBeUndefined();
    expect(
      findPodGroupDifference(there, { minMember: 4, minResources: { memory: "1Gi", cpu: "8" } }, fields),
    ).toBeUndefined();
    expect(findPodGroupDifference(there, { minMember: 4, minResources: { cpu: "9" } }, fields)).toEqual({
      minResources: { cpu: "9", memory: null },
    });
    expect(findPodGroupDifference(there, { minMember: 2, scheduleTimeoutSeconds: 9 }, fields)).toEqual({
      minMember: 2,
    });
  });

  it("is named by its pods", () => {
    expect(POD_GROUP_KINDS.volcano.mark("mnist").annotations).toEqual({ "scheduling.k8s.io/group-name": "mnist" });
    expect(POD_GROUP_KINDS.schedulerPlugins.mark("mnist").labels).toEqual({ "scheduling.x-k8s.io/pod-group": "mnist" });
  });
});
