import type { V1ObjectMeta, V1Pod, V1Service } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { KUBEFLOW_TFJOB, NAMESPACE, testJob, testMember, type MemberOptions } from "../../test/job-world.ts";
import type { KubeCalls } from "../kube-calls.ts";
import { KubeError } from "../kube-error.ts";
import type { KubeObject } from "../list-watch.ts";
import { claimantIndex } from "./claimant-index.ts";
import type { ControllerInterface, JobObject } from "./controller-interface.ts";
import { jobController, type JobControllerConfiguration } from "./job-controller.ts";
import type { Member } from "./member.ts";

const job = testJob("mnist");
const template = { metadata: { labels: { team: "vision" }, annotations: { note: "kept" } }, spec: { containers: [] } };

/** A cache by the index of the real ones. */
function cacheOf<M extends Member>(members: readonly M[]) {
  const index = claimantIndex(KUBEFLOW_TFJOB);
  return { byIndex: (_name: "claimant", value: string) => members.filter((member) => index(member).includes(value)) };
}

/** Metadata alone, which is all of a pod or a service that matters here. */
const asPod = (type: string, index: number, more: MemberOptions = {}): { readonly metadata: V1ObjectMeta } => {
  const {
    creationTimestamp: _created,
    deletionTimestamp: _deleted,
    ownerReferences = [],
    labels,
    ...metadata
  } = testMember("mnist", type, index, more).metadata ?? {};
  return { metadata: { ...metadata, ...(labels && { labels: { ...labels } }), ownerReferences: [...ownerReferences] } };
};

type World = {
  readonly pods?: readonly V1Pod[];
  readonly services?: readonly V1Service[];
  readonly configuration?: JobControllerConfiguration;
  readonly controller?: Partial<ControllerInterface<JobObject>>;
};

function world({ pods = [], services = [], configuration, controller = {} }: World = {}) {
  const sent: { readonly verb: string; readonly plural: string; readonly object: KubeObject }[] = [];
  const woken: string[] = [];
  const events: string[] = [];
  let freshReads = 0;
  const answer = <Value>(verb: string, plural: string, object: KubeObject): Promise<Value> => {
    sent.push({ verb, plural, object });
    return Promise.resolve(object as Value);
  };
  const calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete"> = {
    create: ({ plural }, object) => answer("create", plural, object),
    get: ({ plural }, name) => {
      const there = (plural === "pods" ? pods : services).find((each) => each.metadata?.name === name);
      return there === undefined ? Promise.reject(new KubeError("GET", 404, {})) : Promise.resolve(there as never);
    },
    patch: ({ plural }, name, { body }) => answer("patch", plural, { ...(body as KubeObject), metadata: { name } }),
    delete: ({ plural }, name) => answer("delete", plural, { metadata: { name } }),
  };
  const made = jobController(
    {
      ...KUBEFLOW_TFJOB,
      getJobFromInformerCache: () => job,
      getJobFromApi: () => {
        freshReads += 1;
        return Promise.resolve(job);
      },
      ...controller,
    },
    {
      calls,
      pods: cacheOf(pods),
      services: cacheOf(services),
      jobs: () => [job, testJob("resnet")],
      queue: { add: (key) => woken.push(key) },
      recordEvent: (_job, _type, reason) => events.push(reason),
    },
    configuration,
  );
  return { made, sent, woken, events, freshReads: () => freshReads };
}

describe("a job controller", () => {
  it("makes pods with their name, labels and owner, and expects them until it has seen them", async () => {
    const { made, sent, woken, events } = world();
    const pods = [0, 1].map((index) => ({ index, isMaster: index === 0, template }));
    expect(await made.createPods(job, "Worker", pods)).toEqual({ done: 2, unknown: 0, refused: [], untried: 0 });
    expect(sent[0]?.object).toMatchObject({
      metadata: {
        name: "mnist-worker-0",
        namespace: NAMESPACE,
        annotations: { note: "kept" },
        labels: {
          team: "vision",
          "training.kubeflow.org/job-name": "mnist",
          "training.kubeflow.org/replica-type": "worker",
          "training.kubeflow.org/replica-index": "0",
          "training.kubeflow.org/job-role": "master",
        },
        ownerReferences: [made.genOwnerReference(job)],
      },
    });
    expect(sent[1]?.object.metadata?.labels).not.toHaveProperty("training.kubeflow.org/job-role");
    expect(made.satisfiedExpectations(job, ["Worker", "PS"])).toBe(false);
    made.addPod(asPod("worker", 0, { owner: job }));
    made.addPod(asPod("worker", 1, { owner: job }));
    expect(made.satisfiedExpectations(job, ["Worker", "PS"])).toBe(true);
    expect(woken).toEqual(["team/mnist", "team/mnist"]);
    expect(events).toEqual(["SuccessfulCreatePod", "SuccessfulCreatePod"]);
  });

  it("makes services for replicas, and deletes both kinds of members with accounts of their own", async () => {
    const owned = [0, 1].map((index) => asPod("ps", index, { owner: job }));
    const ownedServices = [0, 1].map((index) => asPod("ps", index, { owner: job, uid: `uid-of-service-${index}` }));
    const { made, sent } = world({ pods: owned, services: ownedServices });
    await made.createServices(job, "PS", [{ index: 2, ports: [{ name: "tfjob-port", port: 2222 }] }]);
    expect(sent[0]?.object).toMatchObject({
      metadata: { name: "mnist-ps-2" },
      spec: { clusterIP: "None", ports: [{ port: 2222 }] },
    });
    made.forgetJob("uid-of-mnist");
    await made.deletePods(job, "PS", owned);
    await made.deleteServices(job, "PS", ownedServices.slice(0, 1));
    expect(sent.slice(1).map(({ verb, plural }) => `${verb} ${plural}`)).toEqual([
      "delete pods",
      "delete pods",
      "delete services",
    ]);
    for (const pod of owned) made.deletePod(pod);
    expect(made.satisfiedExpectations(job, ["PS"])).toBe(false);
    for (const service of ownedServices.slice(0, 1)) made.deleteService(service);
    expect(made.satisfiedExpectations(job, ["PS"])).toBe(true);
  });

  it("lets the kind add labels, but not change whose the member is", () => {
    const furtherLabels = () => ({ "muster.dev/owner-kind": "job", "training.kubeflow.org/job-name": "another" });
    const { made } = world({ controller: { furtherLabels } });
    expect(made.genMember(job, { replicaType: "Worker", index: 3 })).toEqual({
      name: "mnist-worker-3",
      labels: {
        ...made.genLabels("mnist"),
        "muster.dev/owner-kind": "job",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "3",
      },
    });
  });

  it("claims pods and services of a job with one question whether it still lives", async () => {
    const members = [
      asPod("worker", 0, { owner: job }),
      asPod("worker", 1),
      asPod("worker", 2, { owner: testJob("other") }),
      asPod("worker", 3, { labels: {} }),
    ];
    const { made, freshReads } = world({ pods: members, services: members });
    const canAdopt = made.recheckDeletionTimestamp(job);
    const pods = await made.getPodsForJob(job, canAdopt);
    const services = await made.getServicesForJob(job, canAdopt);
    for (const { claimed, errors } of [pods, services]) {
      expect(claimed.map(({ metadata }) => metadata?.name)).toEqual(["mnist-worker-0", "mnist-worker-1"]);
      expect(errors).toEqual([]);
    }
    expect(freshReads()).toBe(1);
  });

  it("sorts members by type and index", () => {
    const { made } = world();
    const members = [asPod("worker", 1), asPod("ps", 0), asPod("worker", 5)];
    const workers = made.filterPodsForReplicaType(members, "Worker");
    expect(made.getPodSlices(workers, 2)).toMatchObject({
      slots: [undefined, members[0]],
      surplus: [{ member: members[2], index: 5, because: "out-of-range" }],
    });
    expect(made.getServiceSlices(made.filterServicesForReplicaType(members, "PS"), 1).slots).toEqual([members[1]]);
  });

  it("has every job looked at again, every 15 s unless told otherwise", () => {
    expect(world().made.resync.everyMs).toBe(15_000);
    const { made } = world({ configuration: { reconcilerSyncLoopPeriodMs: 500 } });
    expect(made.resync.everyMs).toBe(500);
    expect([...made.resync.keys()]).toEqual(["team/mnist", "team/resnet"]);
  });

  it("guards gangs only where that is switched on", async () => {
    const off = world();
    expect(await off.made.syncPdb(job, 3)).toBe("off");
    expect(off.sent).toEqual([]);
    const on = world({ configuration: { enableGangScheduling: true } });
    expect(await on.made.syncPdb(job, 3)).toBe("created");
    expect(on.sent).toMatchObject([{ verb: "create", plural: "poddisruptionbudgets" }]);
    expect(await on.made.deletePdb(job)).toBe(false);
  });

  it("refuses names that no member can have before anything is asked for", async () => {
    const long = testJob("a".repeat(60));
    const { made, sent } = world();
    await expect(made.createPods(long, "Worker", [{ index: 0, template }])).rejects.toThrow("63 at most");
    expect(sent).toEqual([]);
    expect(made.expectations.size()).toBe(0);
  });
});
