import type { V1Pod } from "@kubernetes/client-node";
import { toKubeFault, type KubeObject } from "@muster/kube";
import { annotations } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { POD_GROUP_KINDS, type PodGroup, type PodGroupKind } from "../src/members/pod-group.ts";
import { API_SERVERS } from "./api-servers.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const NAMESPACE = "default";
const FOLDER = "../../apps/job-controller/test/pod-groups";
const PODS = { apiVersion: "v1", plural: "pods", namespace: NAMESPACE };
const groupsOf = ({ apiVersion }: PodGroupKind) => ({ apiVersion, plural: "podgroups", namespace: NAMESPACE });

/** Each kind of group, and the scheduler name with which a job selects it. */
const SCHEDULERS = [
  { kind: POD_GROUP_KINDS.volcano, scheduler: "volcano" },
  { kind: POD_GROUP_KINDS.schedulerPlugins, scheduler: "coscheduler" },
] as const;

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs of schedulers with groups under ${server.title}`, () => {
    let world: JobWorld;
    const slowly = { timeout: 240_000 };

    beforeAll(async () => {
      const definitions = ["muster.dev_jobs.yaml", `${FOLDER}/volcano.yaml`, `${FOLDER}/scheduler-plugins.yaml`];
      world = await openJobWorld(await server.start(), { machines: 3 }, { definitions });
      await world.startController();
    });

    afterAll(() => world[Symbol.asyncDispose]());

    const groupOf = async (kind: PodGroupKind, name: string): Promise<PodGroup | undefined> => {
      try {
        return await world.calls.get<PodGroup>(groupsOf(kind), name);
      } catch (error) {
        if (toKubeFault(error)?.code === "not_found") return undefined;
        throw error;
      }
    };
    /** Acts as a gang scheduler: places no pod of a group before the group's minimum exists. */
    const place = async (kind: PodGroupKind, scheduler: string, name: string): Promise<number> => {
      const group = await groupOf(kind, name);
      const { items } = await world.calls.list<V1Pod>(PODS);
      const mark = kind.mark(name);
      const marked = items.filter(
        ({ metadata, spec }) => spec?.schedulerName === scheduler && isMarked(metadata ?? {}, mark),
      );
      const free = marked.filter(({ spec }) => spec?.nodeName === undefined);
      if (group?.spec?.minMember === undefined || marked.length < group.spec.minMember) return 0;
      for (const pod of free) await bind(world, pod);
      return free.length;
    };

    it.each(SCHEDULERS)(
      "$scheduler places the whole gang on the machines that it was granted",
      slowly,
      async (each) => {
        const { kind, scheduler } = each;
        const name = `gang-of-${scheduler}`;
        const { metadata } = await world.create(job(name, scheduler, "sleep 600"));
        const group = await until("the group exists", () => groupOf(kind, name));
        expect(group.spec).toMatchObject({ minMember: 2, minResources: { cpu: "1", memory: "16Mi" } });
        if (kind === POD_GROUP_KINDS.volcano)
          expect(group.spec).toMatchObject({ queue: "night", priorityClassName: "high" });
        else expect(group.spec).toMatchObject({ scheduleTimeoutSeconds: 30 });
        expect(group.metadata?.ownerReferences).toMatchObject([
          { kind: "Job", name, uid: metadata.uid, controller: true },
        ]);
        const others = SCHEDULERS.filter((other) => other !== each).map((other) => groupOf(other.kind, name));
        expect(await Promise.all(others)).toEqual([undefined]);

        await until("both pods are placed", async () => (await place(kind, scheduler, name)) === 2);
        await world.untilCondition(name, "Running");
        // The pod runs on the granted machine, whichever scheduler places it.
        for (const { spec } of await world.pods(name)) expect(spec?.nodeName).toBe(machineOf(spec));

        await world.patch(name, { spec: { replicaSpecs: { worker: { replicas: 3 } } } });
        await until("the group has grown", async () => (await groupOf(kind, name))?.spec?.minMember === 3);
        await until("the third pod is placed", async () => (await place(kind, scheduler, name)) === 1);

        await world.patch(name, { spec: { runPolicy: { suspend: true } } });
        await until("the group is deleted with the pods", async () => (await groupOf(kind, name)) === undefined);
        await world.untilNothingLeft(name);
        await world.patch(name, { spec: { runPolicy: { suspend: false } } });
        await until("all pods are placed again", async () => (await place(kind, scheduler, name)) === 3);
        await world.patch(name, { metadata: { annotations: { [annotations.cancelled]: "true" } } });
        await world.untilCondition(name, "Failed");
        await until("the group is deleted with the job", async () => (await groupOf(kind, name)) === undefined);
        await world.untilNothingLeft(name);
      },
    );

    it("keeps a group of another owner, creates no pods beside it, and reports so", slowly, async () => {
      const { kind, scheduler } = SCHEDULERS[0];
      const foreign = {
        apiVersion: kind.apiVersion,
        kind: "PodGroup",
        metadata: { name: "taken" },
        spec: { minMember: 7 },
      };
      await world.calls.create<KubeObject>(groupsOf(kind), foreign);
      await world.create(job("taken", scheduler, "true"));
      const events = await until("the conflict is reported", async () => {
        const reported = await world.jobs.listJobEvents({ key: { kind: "Job", name: "taken" } });
        return reported.events.some(({ reason }) => reason === "FailedCreatePodGroup") && reported.events;
      });
      expect(events.find(({ reason }) => reason === "FailedCreatePodGroup")?.message).toContain("another owner");
      expect(await world.pods("taken")).toEqual([]);
      expect((await groupOf(kind, "taken"))?.spec?.minMember).toBe(7);
      await world.calls.delete(groupsOf(kind), "taken");
      await until("its pods are placed", async () => (await place(kind, scheduler, "taken")) === 2, {
        timeoutMs: 60_000,
      });
      await world.untilCondition("taken", "Succeeded");
    });

    it("creates no group for a job of the cluster's own scheduler", slowly, async () => {
      await world.create(job("plain", undefined, "true"));
      await world.untilCondition("plain", "Succeeded");
      for (const { kind } of SCHEDULERS) expect(await groupOf(kind, "plain")).toBeUndefined();
    });
  });
}

function job(name: string, schedulerName: string | undefined, command: string): TestJob {
  const containers = [{ name: "main", image: "program:1", command: ["sh", "-c", command] }];
  const schedulingPolicy = {
    queue: "night",
    priorityClass: "high",
    minResources: { cpu: "1", memory: "16Mi" },
    scheduleTimeoutSeconds: 30,
  };
  const template = { spec: { containers, ...(schedulerName !== undefined && { schedulerName }) } };
  const worker = { replicas: 2, pool: "machines", template };
  const spec = { replicaSpecs: { worker }, runPolicy: { cleanPodPolicy: "All", schedulingPolicy } };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name }, spec };
}

function isMarked(metadata: NonNullable<V1Pod["metadata"]>, { labels, annotations }: ReturnType<PodGroupKind["mark"]>) {
  const bears = (wanted: Readonly<Record<string, string>>, has: Readonly<Record<string, string>> = {}): boolean =>
    Object.entries(wanted).every(([key, value]) => has[key] === value);
  return bears(labels, metadata.labels) && bears(annotations, metadata.annotations);
}

/** Returns the only machine on which a pod may run. */
function machineOf(spec: V1Pod["spec"]): string | undefined {
  const terms = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms?.[0]?.matchFields?.[0]?.values?.[0];
}

async function bind({ calls }: JobWorld, { metadata, spec }: V1Pod): Promise<void> {
  const name = metadata?.name ?? "";
  const target = { apiVersion: "v1", kind: "Node", name: machineOf(spec) };
  const binding = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
  await calls.create<KubeObject>(PODS, binding, { subresource: "binding" });
}
