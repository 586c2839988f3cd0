import { readFileSync } from "node:fs";
import type { V1Pod, V1PodDisruptionBudget } from "@kubernetes/client-node";
import { makeKubeCalls, toKubeFault, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { JobResource } from "../src/adapters/read-job.ts";
import { JOB_KIND } from "../src/domain/kind-job.ts";
import { buildJobLabels } from "../src/domain/member-labels.ts";
import { buildMemberName } from "../src/domain/member-names.ts";
import { findController, buildOwnerReference } from "../src/domain/ownership.ts";
import { syncBudget } from "../src/members/budget.ts";
import { createMembers } from "../src/members/change-members.ts";
import { claimMembers, type Ownership } from "../src/members/claim-members.ts";
import { makeExpectations, buildPodsKey } from "../src/members/expectations.ts";
import { makeMemberCalls } from "../src/members/member-calls.ts";
import { createMember } from "../src/members/member-control.ts";
import { deletePodGroup, POD_GROUP_KINDS, findServedPodGroupKinds, syncPodGroup } from "../src/members/pod-group.ts";
import { API_SERVERS } from "./api-servers.ts";

const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
const TEMPLATE = { spec: { containers: [{ name: "main", image: "busybox" }], terminationGracePeriodSeconds: 0 } };

const definition = (file: string): KubeObject & { readonly metadata: { readonly name: string } } =>
  parse(readFileSync(new URL(file, import.meta.url), "utf8")) as never;

for (const { skip, title, start } of API_SERVERS)
  describe.skipIf(skip)(`the members of a job on ${title}`, () => {
    let server: TestApiServer;
    let calls: KubeCalls;
    let namespace: string;
    let count = 0;

    beforeAll(async () => {
      server = await start();
      calls = makeKubeCalls(loadKube(server.kubeconfig));
      await calls.create(DEFINITIONS, definition("../../../deploy/crds/muster.dev_jobs.yaml"));
      const jobs = { apiVersion: "muster.dev/v1", plural: "jobs" };
      await until("jobs are served", async () => (await calls.list(jobs)).items.length === 0);
    });
    afterAll(async () => {
      await calls[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    });
    beforeEach(async () => {
      namespace = `case-${++count}`;
      await calls.create({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: namespace } });
    });

    const pods = () => ({ apiVersion: "v1", plural: "pods", namespace });
    const budgets = () => ({ apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace });
    const createJob = (name: string): Promise<JobResource> =>
      calls.create<JobResource>(
        { apiVersion: "muster.dev/v1", plural: "jobs", namespace },
        {
          apiVersion: "muster.dev/v1",
          kind: "Job",
          metadata: { name } as JobResource["metadata"],
          spec: { replicaSpecs: { worker: { replicas: 1, template: TEMPLATE } } },
        },
      );
    const ownershipOf = ({ metadata }: JobResource): Ownership => ({
      labels: buildJobLabels(JOB_KIND.labelKeys, metadata),
      owner: buildOwnerReference(JOB_KIND, metadata),
      canAdopt: () => Promise.resolve(),
    });
    const podOf = (
      job: JobResource,
      index: number,
      ownerReferences = [buildOwnerReference(JOB_KIND, job.metadata)],
    ): V1Pod => {
      const { replicaTypeLabelKey, replicaIndexLabelKey } = JOB_KIND.labelKeys;
      const replica = { [replicaTypeLabelKey]: "worker", [replicaIndexLabelKey]: String(index) };
      const labels = { ...buildJobLabels(JOB_KIND.labelKeys, job.metadata), ...replica };
      const metadata = {
        name: buildMemberName(job.metadata, { type: "worker", index }),
        namespace,
        labels,
        ownerReferences,
      };
      return { apiVersion: "v1", kind: "Pod", metadata, ...TEMPLATE };
    };
    /** Creates the job's missing pods up to `replicas`, as far as the API server and these calls allow. */
    const createPods = async (job: JobResource, replicas: number, create: KubeCalls["create"] = calls.create) => {
      const events: string[] = [];
      const members = {
        kind: "Pod",
        calls: makeMemberCalls<V1Pod>({ ...calls, create }, "pods"),
        report: (_type: string, reason: string): void => void events.push(reason),
      } as const;
      const accounting = { expectations: makeExpectations(), key: buildPodsKey(job.metadata.uid, "worker") };
      const present = await podNames();
      const wanted = Array.from({ length: replicas }, (_, index) => podOf(job, index)).filter(
        ({ metadata }) => !present.includes(metadata?.name ?? ""),
      );
      const report = await createMembers(wanted, (pod) => createMember(members, pod), accounting);
      return { report, events, expected: accounting.expectations.outstanding(accounting.key).creations.length };
    };
    const podNames = async (): Promise<string[]> =>
      (await calls.list<V1Pod>(pods())).items.map(({ metadata }) => metadata?.name ?? "").sort();
    const namesOf = (job: JobResource, replicas: number): string[] =>
      Array.from({ length: replicas }, (_, index) => podOf(job, index).metadata?.name ?? "").sort();

    it("are ignored if another pod has replaced one under its name since the cache read it", async () => {
      const job = await createJob("late");
      const earlier = await calls.create<V1Pod>(pods(), podOf(job, 0, []));
      await calls.delete(pods(), "late-worker-0");
      const later = await until("the name is free", () => calls.create<V1Pod>(pods(), podOf(job, 0, [])));
      const ownership = ownershipOf(job);
      const claim = (member: V1Pod) =>
        claimMembers(job, ownership, [member], makeMemberCalls<V1Pod>(calls, "pods").patch);
      const adopted = await claim(earlier);
      expect(adopted.claimed).toEqual([]);
      expect(adopted.errors.map((error) => toKubeFault(error)?.code)).toEqual(["conflict"]);
      const released = {
        ...earlier,
        metadata: { ...earlier.metadata, labels: {}, ownerReferences: [ownership.owner] },
      };
      expect(await claim(released)).toEqual({ claimed: [], errors: [] });
      const now = await calls.get<V1Pod>(pods(), "late-worker-0");
      expect(now.metadata?.resourceVersion).toBe(later.metadata?.resourceVersion);
    });

    it("are created once each though the answers to the first requests are lost", async () => {
      const job = await createJob("unheard");
      let lost = 0;
      const { report, events } = await createPods(job, 8, async (resource, object, options) => {
        const answer = await calls.create(resource, object, options);
        if (lost >= 5) return answer;
        lost += 1;
        throw new DOMException("no answer within 1 ms", "TimeoutError");
      });
      expect([lost, report]).toEqual([5, { done: 8, unknown: 0, refused: [], untried: 0 }]);
      expect(events).toEqual(Array.from({ length: 8 }, () => "SuccessfulCreatePod"));
      expect(await podNames()).toEqual(namesOf(job, 8));
    });

    it("are created up to a quota, and beyond it once the quota allows, and nothing refused stays expected", async () => {
      const job = await createJob("limited");
      const limit = await limitPods(10);
      const { report, events, expected } = await createPods(job, 30);
      expect(report.refused.length).toBeGreaterThan(0);
      expect(report.done + report.refused.length + report.untried).toBe(30);
      expect(events).toContain("FailedCreatePod");
      expect(expected).toBe(report.done);
      await until("the quota is used up", async () => {
        await createPods(job, 30);
        return (await podNames()).length === 10;
      });
      await limit(30);
      await until("the quota allows more pods", async () => (await createPods(job, 30)).report.refused.length === 0);
      expect(await podNames()).toEqual(namesOf(job, 30));
    });

    it("adopt the orphaned budget of their job", async () => {
      const job = await createJob("heir");
      const ownership = ownershipOf(job);
      const metadata = { name: "heir", labels: ownership.labels };
      const spec = { maxUnavailable: 1, selector: { matchLabels: { any: "pod" } } };
      await calls.create<V1PodDisruptionBudget>(budgets(), {
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata,
        spec,
      });
      const deps = { calls, report: () => undefined };
      // The controller of budgets may write its status in between; the passes of a job repeat conflicting writes.
      const synced = await until("the budget is synced", () => syncBudget(deps, job.metadata, 1, ownership));
      expect(synced).toBe("adopted");
      const adopted = await calls.get<V1PodDisruptionBudget>(budgets(), "heir");
      expect(findController(adopted)?.uid).toBe(job.metadata.uid);
      expect(adopted.spec).toMatchObject({ minAvailable: 1, selector: { matchLabels: ownership.labels } });
      expect(adopted.spec?.maxUnavailable).toBeUndefined();
    });

    it("have a pod group once the cluster has the kind", async () => {
      expect(await findServedPodGroupKinds(calls, namespace)).toEqual([]);
      const groups = definition("pod-groups/scheduler-plugins.yaml");
      await calls.create(DEFINITIONS, groups);
      const kind = await until(
        "pod groups are served",
        async () => (await findServedPodGroupKinds(calls, namespace))[0],
      );
      expect(kind).toBe(POD_GROUP_KINDS.schedulerPlugins);
      const job = await createJob("grouped");
      const deps = { calls, report: () => undefined };
      const sync = (minMember: number) => syncPodGroup(deps, job.metadata, kind, { minMember }, ownershipOf(job));
      expect([await sync(3), await sync(3), await sync(4)]).toEqual(["created", "kept", "updated"]);
      const resource = { apiVersion: kind.apiVersion, plural: "podgroups", namespace };
      const found = await calls.get<KubeObject & { readonly spec: object }>(resource, "grouped");
      expect(found.spec).toEqual({ minMember: 4 });
      const remove = () => deletePodGroup(deps, job.metadata, kind);
      expect([await remove(), await remove()]).toEqual([true, false]);
      await calls.delete(DEFINITIONS, groups.metadata.name);
    });

    /** Limits the pods of the namespace; returns a function that changes the limit. */
    async function limitPods(first: number): Promise<(max: number) => Promise<unknown>> {
      const resource = { apiVersion: "v1", plural: "resourcequotas", namespace };
      const hard = (pods: number) => ({ pods: String(pods) });
      // Admission counts by the status, which the test writes if no controller of the server does.
      const report = (pods: number, used: object) =>
        calls.patch(
          resource,
          "small",
          { kind: "merge", body: { status: { hard: hard(pods), ...used } } },
          { subresource: "status" },
        );
      await calls.create(resource, {
        kind: "ResourceQuota",
        apiVersion: "v1",
        metadata: { name: "small" },
        spec: { hard: hard(first) },
      } as KubeObject);
      await report(first, { used: { pods: "0" } });
      return async (max) => {
        await calls.patch(resource, "small", { kind: "merge", body: { spec: { hard: hard(max) } } });
        await report(max, {});
      };
    }
  });
