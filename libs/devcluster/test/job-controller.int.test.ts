import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { CoreV1Event, KubeConfig, V1Pod, V1PodDisruptionBudget, V1Service } from "@kubernetes/client-node";
import {
  claimMembers,
  controllerOf,
  deletePodGroup,
  findPodGroupKind,
  genLabels,
  genOwnerReference,
  kubeCalls,
  kubeFault,
  loadKube,
  memberCalls,
  POD_GROUP_KINDS,
  syncPodGroup,
  type KubeCalls,
  type KubeObject,
} from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import {
  belongsTo,
  GANG,
  GANG_DEFINITION,
  GANG_LABELS,
  GANGS,
  POD_GROUP_DEFINITION,
  startGangOperator,
  type Gang,
  type GangOperator,
} from "./job-controller/gangs.ts";

const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
const PROGRAM = join(import.meta.dirname, "programs/gang-operator.ts");

describe.each(API_SERVERS)("the job controller against $title", ({ skip, start }) => {
  if (skip) {
    it.skip("is not tried", () => undefined);
    return;
  }
  let server: TestApiServer;
  let config: KubeConfig;
  let calls: KubeCalls;
  let operators: AsyncDisposable[] = [];
  let namespace: string;
  let count = 0;

  beforeAll(async () => {
    server = await start();
    config = loadKube(server.kubeconfig);
    calls = kubeCalls(config);
    await calls.create(DEFINITIONS, GANG_DEFINITION);
    await until("gangs are served", async () => (await calls.list(GANGS)).items.length === 0);
  });
  afterAll(async () => {
    await calls[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    namespace = `case-${++count}`;
    await calls.create({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: namespace } });
  });
  afterEach(async () => {
    for (const operator of operators) await operator[Symbol.asyncDispose]();
    operators = [];
    // The next test's operator would go on with them.
    for (const { metadata } of (await calls.list<KubeObject>({ ...GANGS, namespace })).items) {
      await calls.delete({ ...GANGS, namespace }, metadata?.name ?? "");
    }
  });

  const operate = (more: Partial<KubeCalls> = {}): GangOperator => {
    const operator = startGangOperator({ config, calls: { ...calls, ...more } });
    operators.push(operator);
    return operator;
  };
  const pods = () => ({ apiVersion: "v1", plural: "pods", namespace });
  const services = () => ({ apiVersion: "v1", plural: "services", namespace });
  const createGang = (name: string, spec: Gang["spec"]): Promise<Gang> =>
    calls.create<Gang>(
      { ...GANGS, namespace },
      { apiVersion: GANGS.apiVersion, kind: GANG.kind, metadata: { name } as Gang["metadata"], spec },
    );
  const changeGang = (name: string, spec: Partial<Gang["spec"]>): Promise<unknown> =>
    calls.patch({ ...GANGS, namespace }, name, { kind: "merge", body: { spec } });
  const living = async <Object extends KubeObject>(resource: ReturnType<typeof pods>): Promise<Object[]> =>
    (await calls.list<Object>(resource)).items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  const nameOf = ({ metadata }: KubeObject): string => metadata?.name ?? "";
  const namesOf = (objects: readonly KubeObject[]): string[] => objects.map(nameOf).sort();
  const workers = (gang: string, replicas: number): string[] =>
    Array.from({ length: replicas }, (_, index) => `${gang}-worker-${index}`).sort();
  /** The gang's living pods once they are exactly these. */
  const podsOf = (gang: Gang, names: readonly string[]): Promise<V1Pod[]> =>
    until(`${gang.metadata.name} has ${names.length} pods`, async () => {
      const found = (await living<V1Pod>(pods())).filter((pod) => belongsTo(gang, pod));
      return JSON.stringify(namesOf(found)) === JSON.stringify([...names].sort()) && found;
    });
  const createPod = (name: string, labels: Record<string, string>, more: V1Pod["metadata"] = {}): Promise<V1Pod> =>
    calls.create<V1Pod>(pods(), {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, labels, ...more },
      spec: { containers: [{ name: "main", image: "busybox" }], terminationGracePeriodSeconds: 0 },
    });
  const memberLabels = (gang: string, index: string) => ({
    [GANG_LABELS.groupNameLabelKey]: GANG_LABELS.groupNameLabelValue,
    [GANG_LABELS.jobNameLabelKey]: gang,
    [GANG_LABELS.replicaTypeLabelKey]: "worker",
    [GANG_LABELS.replicaIndexLabelKey]: index,
  });
  const relabel = (pod: string, gang: string): Promise<unknown> => {
    const body = { metadata: { labels: { [GANG_LABELS.jobNameLabelKey]: gang } } };
    return calls.patch(pods(), pod, { kind: "merge", body });
  };
  const foreignOwner = {
    apiVersion: "v1",
    kind: "ConfigMap",
    name: "foreign",
    controller: true,
    blockOwnerDeletion: true,
  };

  it("makes the pods, services and the budget of a gang, and follows its size", async () => {
    const operator = operate();
    const gang = await createGang("scaled", { replicas: 5, port: 2222, minAvailable: 5 });
    await podsOf(gang, workers("scaled", 5));
    await until("each has a service", async () => {
      const found = await living<V1Service>(services());
      return JSON.stringify(namesOf(found)) === JSON.stringify(workers("scaled", 5));
    });
    const budgets = { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace };
    const minAvailable = async () => (await calls.get<V1PodDisruptionBudget>(budgets, "scaled")).spec?.minAvailable;
    await until("the budget is there", async () => (await minAvailable()) === 5);
    await changeGang("scaled", { replicas: 2, minAvailable: 2 });
    await podsOf(gang, workers("scaled", 2));
    await until("the services are gone, too", async () => {
      const found = await living<V1Service>(services());
      return JSON.stringify(namesOf(found)) === JSON.stringify(workers("scaled", 2));
    });
    await until("the budget has followed", async () => (await minAvailable()) === 2);
    await until("the events are of the gang, and counted", async () => {
      const found = (await calls.list<CoreV1Event>({ apiVersion: "v1", plural: "events", namespace })).items;
      const made = found.filter(({ reason }) => reason === "SuccessfulCreatePod");
      const isOfGang = made.every(
        ({ involvedObject: { kind, uid } }) => kind === GANG.kind && uid === gang.metadata.uid,
      );
      return isOfGang && made.reduce((sum, event) => sum + (event.count ?? 1), 0) === 5;
    });
    expect(operator.events.filter((event) => event === "scaled SuccessfulCreatePod")).toHaveLength(5);
    expect(operator.events.filter((event) => event === "scaled SuccessfulDeleteService")).toHaveLength(3);
  });

  it("makes a pod or a service that somebody deletes anew", async () => {
    operate();
    const gang = await createGang("mended", { replicas: 2, port: 2222 });
    const [before] = await podsOf(gang, workers("mended", 2));
    const service = await until("the services are there", () => calls.get<V1Service>(services(), "mended-worker-1"));
    await calls.delete(pods(), nameOf(before ?? {}));
    await calls.delete(services(), "mended-worker-1");
    await until("both are others now", async () => {
      const pod = await calls.get<V1Pod>(pods(), nameOf(before ?? {}));
      const other = await calls.get<V1Service>(services(), "mended-worker-1");
      return pod.metadata?.uid !== before?.metadata?.uid && other.metadata?.uid !== service.metadata?.uid;
    });
  });

  it("adopts an orphan instead of making its like", async () => {
    const orphan = await createPod("orphan", memberLabels("adopting", "1"));
    const operator = operate();
    const gang = await createGang("adopting", { replicas: 2 });
    const found = await podsOf(gang, ["adopting-worker-0", "orphan"]);
    expect(found.find((pod) => nameOf(pod) === "orphan")?.metadata?.uid).toBe(orphan.metadata?.uid);
    const late = await createPod("late", memberLabels("adopting", "0"));
    await until("the younger duplicate is gone", async () => {
      const there = await living<V1Pod>(pods());
      return !there.some(({ metadata }) => metadata?.uid === late.metadata?.uid);
    });
    expect(operator.events).toContain("adopting SuccessfulDeletePod");
    await podsOf(gang, ["adopting-worker-0", "orphan"]);
  });

  it("releases a pod whose labels are edited, and the gang that these select takes it", async () => {
    operate();
    const giver = await createGang("giver", { replicas: 2 });
    const taker = await createGang("taker", { replicas: 2 });
    const given = (await podsOf(giver, workers("giver", 2))).find((pod) => nameOf(pod) === "giver-worker-1");
    await podsOf(taker, workers("taker", 2));
    await relabel("giver-worker-1", "nobody");
    await until("nobody owns the pod", async () => {
      return controllerOf(await calls.get<V1Pod>(pods(), "giver-worker-1")) === undefined;
    });
    await relabel("giver-worker-1", "taker");
    // Of two pods for one index the taker keeps the older one.
    const taken = await podsOf(taker, ["giver-worker-1", "taker-worker-0"]);
    expect(taken.map(({ metadata }) => metadata?.uid)).toContain(given?.metadata?.uid);
    await relabel("giver-worker-1", "giver");
    await podsOf(giver, workers("giver", 2));
    await podsOf(taker, workers("taker", 2));
  });

  it("leaves alone what has another controller, whatever its labels and name", async () => {
    const owner = await calls.create<KubeObject>(
      { apiVersion: "v1", plural: "configmaps", namespace },
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "foreign" } },
    );
    const ownerReferences = [{ ...foreignOwner, uid: owner.metadata?.uid ?? "" }];
    const selected = await createPod("selected", memberLabels("besides", "0"), { ownerReferences });
    const named = await createPod("besides-worker-1", {}, { ownerReferences });
    const operator = operate();
    const gang = await createGang("besides", { replicas: 3 });
    await podsOf(gang, ["besides-worker-0", "besides-worker-2"]);
    await until("the conflict is told", () => operator.events.includes("besides FailedCreatePod"));
    for (const { metadata } of [selected, named]) {
      const now = await calls.get<V1Pod>(pods(), metadata?.name ?? "");
      expect(now.metadata?.resourceVersion).toBe(metadata?.resourceVersion);
    }
    await calls.delete(pods(), "besides-worker-1");
    await podsOf(gang, workers("besides", 3));
  });

  it("is told about a pod that was replaced under its name between the look and the claim", async () => {
    const gang = await createGang("late", { replicas: 1 });
    const earlier = await createPod("late-worker-0", memberLabels("late", "0"));
    await calls.delete(pods(), "late-worker-0");
    const later = await until("the name is free", () => createPod("late-worker-0", memberLabels("late", "0")));
    const reference = genOwnerReference(GANG, gang);
    const claim = (member: V1Pod) =>
      claimMembers(gang, reference, genLabels(GANG_LABELS, "late"), [member], {
        patch: memberCalls<V1Pod>(calls, "pods").patch,
        canAdopt: () => Promise.resolve(),
      });
    const adopted = await claim(earlier);
    expect(adopted.claimed).toEqual([]);
    expect(adopted.errors.map((error) => kubeFault(error)?.code)).toEqual(["conflict"]);
    const released = { ...earlier, metadata: { ...earlier.metadata, labels: {}, ownerReferences: [reference] } };
    expect(await claim(released)).toEqual({ claimed: [], errors: [] });
    const now = await calls.get<V1Pod>(pods(), "late-worker-0");
    expect(now.metadata?.resourceVersion).toBe(later.metadata?.resourceVersion);
  });

  it("adopts the budget that was left to a gang, and touches nobody else's", async () => {
    const budgets = { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace };
    const budget = (name: string, labels: Record<string, string>): Promise<V1PodDisruptionBudget> =>
      calls.create<V1PodDisruptionBudget>(budgets, {
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: { name, labels },
        spec: { maxUnavailable: 1, selector: { matchLabels: { any: "pod" } } },
      });
    await budget("heir", genLabels(GANG_LABELS, "heir"));
    const foreign = await budget("stranger", {});
    const operator = operate();
    const heir = await createGang("heir", { replicas: 1, minAvailable: 1 });
    const adopted = await until("the budget has its gang", async () => {
      const found = await calls.get<V1PodDisruptionBudget>(budgets, "heir");
      return belongsTo(heir, found) && found;
    });
    expect(adopted.spec).toMatchObject({ minAvailable: 1 });
    expect(adopted.spec?.maxUnavailable).toBeUndefined();
    const stranger = await createGang("stranger", { replicas: 1, minAvailable: 1 });
    await until("the conflict is told", () => operator.events.includes("stranger FailedCreatePdb"));
    await podsOf(stranger, workers("stranger", 1));
    const now = await calls.get<V1PodDisruptionBudget>(budgets, "stranger");
    expect([now.metadata?.uid, now.spec, controllerOf(now)]).toEqual([foreign.metadata?.uid, foreign.spec, undefined]);
  });

  it("makes a pod group once the cluster has the kind", async () => {
    expect(await findPodGroupKind(calls, namespace)).toBeUndefined();
    await calls.create(DEFINITIONS, POD_GROUP_DEFINITION);
    const kind = await until("pod groups are served", () => findPodGroupKind(calls, namespace));
    expect(kind).toBe(POD_GROUP_KINDS.schedulerPlugins);
    const gang = await createGang("grouped", { replicas: 0 });
    const deps = { calls, recordEvent: () => undefined };
    const ownership = {
      labels: genLabels(GANG_LABELS, "grouped"),
      owner: genOwnerReference(GANG, gang),
      canAdopt: () => Promise.resolve(),
    };
    const sync = (minMember: number) => syncPodGroup(deps, gang, kind, { minMember }, ownership);
    expect([await sync(3), await sync(3), await sync(4)]).toEqual(["created", "kept", "updated"]);
    const groups = { apiVersion: kind.apiVersion, plural: "podgroups", namespace };
    const found = await calls.get<KubeObject & { readonly spec: object }>(groups, "grouped");
    expect(found.spec).toEqual({ minMember: 4 });
    expect([await deletePodGroup(deps, gang, kind), await deletePodGroup(deps, gang, kind)]).toEqual([true, false]);
    await calls.delete(DEFINITIONS, POD_GROUP_DEFINITION.metadata?.name ?? "");
  });

  it("makes each pod once though the answers to its first requests are lost", async () => {
    let lost = 0;
    const operator = operate({
      create: async (resource, object, options) => {
        const answer = await calls.create(resource, object, options);
        if (resource.plural !== "pods" || lost >= 5) return answer;
        lost += 1;
        throw new DOMException("no answer within 1 ms", "TimeoutError");
      },
    });
    const gang = await createGang("unheard", { replicas: 8 });
    await podsOf(gang, workers("unheard", 8));
    // Not stuck behind what was expected: the cache has shown it.
    await changeGang("unheard", { replicas: 9 });
    await podsOf(gang, workers("unheard", 9));
    expect(lost).toBe(5);
    expect(operator.events.filter((event) => event.includes("Failed"))).toEqual([]);
  });

  it("takes nothing of an earlier gang of the same name, and waits until its pods are gone", async () => {
    const operator = operate();
    const first = await createGang("again", { replicas: 3 });
    const old = await podsOf(first, workers("again", 3));
    const hold = (finalizers: string[]) => ({ kind: "merge", body: { metadata: { finalizers } } }) as const;
    for (const pod of old) await calls.patch(pods(), nameOf(pod), hold(["test.muster.dev/hold"]));
    await calls.delete({ ...GANGS, namespace }, "again");
    const second = await createGang("again", { replicas: 3 });
    expect(second.metadata.uid).not.toBe(first.metadata.uid);
    await until("the conflict is told", () => operator.events.includes("again FailedCreatePod"));
    for (const { metadata } of old) {
      const now = await calls.get<V1Pod>(pods(), metadata?.name ?? "");
      expect([now.metadata?.uid, controllerOf(now)?.uid]).toEqual([metadata?.uid, first.metadata.uid]);
    }
    // A garbage collector deletes them where there is one; here they are let go, and deleted in any case.
    for (const pod of old) {
      await calls.delete(pods(), nameOf(pod), { preconditions: { uid: pod.metadata?.uid ?? "" } });
      await calls.patch(pods(), nameOf(pod), hold([]));
    }
    const now = await podsOf(second, workers("again", 3));
    expect(now.filter(({ metadata }) => old.some((pod) => pod.metadata?.uid === metadata?.uid))).toEqual([]);
  });

  it("makes exactly 50 pods though the operator is killed in the middle", async () => {
    const gang = await createGang("killed", { replicas: 50 });
    const child = spawn(process.execPath, [PROGRAM, server.kubeconfig, "20"], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(child.stdout, "data");
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    const before = (await living<V1Pod>(pods())).filter((pod) => belongsTo(gang, pod));
    expect(before.length).toBeGreaterThan(20);
    expect(before.length).toBeLessThan(50);
    const operator = operate();
    const after = await podsOf(gang, workers("killed", 50));
    const uids = new Set(after.map(({ metadata }) => metadata?.uid));
    expect(before.filter(({ metadata }) => !uids.has(metadata?.uid))).toEqual([]);
    expect(operator.events.filter((event) => event === "killed SuccessfulCreatePod")).toHaveLength(50 - before.length);
    expect(operator.events.filter((event) => event.includes("Delete"))).toEqual([]);
  });

  it("stops at a quota in the middle, goes on when there is room, and expects nothing that was refused", async () => {
    const limit = await limitPods(10);
    const operator = operate();
    const gang = await createGang("limited", { replicas: 30 });
    await until("the refusal is told", () => operator.events.includes("limited FailedCreatePod"));
    await until("there are as many as may be", async () => (await living(pods())).length === 10);
    await limit(30);
    await podsOf(gang, workers("limited", 30));
    expect(operator.events.filter((event) => event === "limited SuccessfulCreatePod")).toHaveLength(30);
  });

  /** Lets so many pods into the namespace; returns how to let in more. */
  async function limitPods(first: number): Promise<(most: number) => Promise<unknown>> {
    const resource = { apiVersion: "v1", plural: "resourcequotas", namespace };
    const hard = (pods: number) => ({ pods: String(pods) });
    // Admission counts in the status, which is the work of a controller where that is not done by the server itself.
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
    return async (most) => {
      await calls.patch(resource, "small", { kind: "merge", body: { spec: { hard: hard(most) } } });
      await report(most, {});
    };
  }
});
