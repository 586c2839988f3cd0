import type { V1ObjectMeta, V1Pod, V1Service } from "@kubernetes/client-node";
import { KubeError, type KubeCalls, type KubeObject } from "@muster/kube";
import { describe, expect, it } from "vitest";
import { KIND, NAMESPACE, testJob, testMember, testRow, type MemberOptions } from "../../test/member-world.ts";
import type { MemberObject } from "../domain/ownership.ts";
import { makeClaimantIndex } from "../members/claimant-index.ts";
import { makeExpectations, buildPodsKey, buildServicesKey } from "../members/expectations.ts";
import { makeKindController } from "./kind-controller.ts";

const job = testRow("mnist");
const during = {
  signal: new AbortController().signal,
  isHeld: () => true,
  requireCurrent: () => Promise.resolve(),
};

/** Builds a cache with the same index as in production. */
function cacheOf<M extends MemberObject>(members: readonly M[]) {
  const index = makeClaimantIndex(KIND.labelKeys);
  return { byIndex: (_name: "claimant", value: string) => members.filter((member) => index(member).includes(value)) };
}

/** Builds only the metadata of a pod or service. */
const asMember = (type: string, index: number, more: MemberOptions = {}): { readonly metadata: V1ObjectMeta } => {
  const {
    creationTimestamp: _created,
    deletionTimestamp: _deleted,
    ownerReferences = [],
    labels,
    ...metadata
  } = testMember("mnist", type, index, more).metadata ?? {};
  return { metadata: { ...metadata, ...(labels && { labels: { ...labels } }), ownerReferences: [...ownerReferences] } };
};

function world({ pods = [], services = [] }: { pods?: readonly V1Pod[]; services?: readonly V1Service[] } = {}) {
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
      const present = (plural === "pods" ? pods : services).find((each) => each.metadata?.name === name);
      return present === undefined ? Promise.reject(new KubeError("GET", 404, {})) : Promise.resolve(present as never);
    },
    patch: ({ plural }, name, { body }) => answer("patch", plural, { ...(body as KubeObject), metadata: { name } }),
    delete: ({ plural }, name) => answer("delete", plural, { metadata: { name } }),
  };
  const expectations = makeExpectations();
  const controller = makeKindController(KIND, {
    calls,
    pods: cacheOf(pods),
    services: cacheOf(services),
    jobs: () => [job, testRow("resnet")],
    job: () => job,
    readJob: () => {
      freshReads += 1;
      return Promise.resolve(job);
    },
    enqueue: (key) => void woken.push(key),
    recordEvent: (_job, _type, reason) => void events.push(reason),
    expectations,
    syncPeriodMs: 500,
  });
  const isSettled = (type: string): boolean =>
    [buildPodsKey, buildServicesKey].every((keyOf) => expectations.satisfied(keyOf("uid-of-mnist", type)));
  return { controller, expectations, isSettled, sent, woken, events, freshReads: () => freshReads };
}

describe("the controller of a kind", () => {
  it("creates pods, and expects them until it has observed them", async () => {
    const { controller, isSettled, sent, woken, events } = world();
    const pods = [0, 1].map((index) => asMember("worker", index, { owner: job }));
    expect(await controller.createPods(job, "worker", pods, during)).toEqual({
      done: 2,
      unknown: 0,
      refused: [],
      untried: 0,
    });
    expect(sent.map(({ object }) => object)).toEqual(pods);
    expect(isSettled("worker")).toBe(false);
    for (const after of pods) controller.changePod({ before: undefined, after });
    expect(isSettled("worker")).toBe(true);
    expect(woken).toEqual(["team/mnist", "team/mnist"]);
    expect(events).toEqual(["SuccessfulCreatePod", "SuccessfulCreatePod"]);
  });

  it("creates no pod once its process has lost the lead", async () => {
    const { controller, sent } = world();
    const pods = [0, 1, 2, 3].map((index) => asMember("worker", index, { owner: job }));
    const creating = controller.createPods(job, "worker", pods, { ...during, isHeld: () => sent.length < 1 });
    await expect(creating).rejects.toThrow("does not lead any more");
    expect(sent.map(({ object }) => object.metadata?.name)).toEqual(["mnist-worker-0"]);
  });

  it("creates and deletes services with separate expectations", async () => {
    const pod = asMember("ps", 0, { owner: job });
    const service = asMember("ps", 0, { owner: job, uid: "uid-of-service" });
    const { controller, isSettled, sent } = world({ pods: [pod], services: [service] });
    await controller.createMemberService(job, "ps", service, during.signal);
    controller.changePod({ before: undefined, after: pod });
    expect(isSettled("ps")).toBe(false);
    controller.changeService({ before: undefined, after: service });
    expect(isSettled("ps")).toBe(true);
    await controller.deletePods(job, "ps", [pod]);
    expect(await controller.deleteService(job, service)).toEqual({ did: "deleted" });
    expect(sent.map(({ verb, plural }) => `${verb} ${plural}`)).toEqual([
      "create services",
      "delete pods",
      "delete services",
    ]);
    controller.changeService({ before: service, after: undefined });
    expect(isSettled("ps")).toBe(false);
    controller.changePod({ before: pod, after: undefined });
    expect(isSettled("ps")).toBe(true);
  });

  it("claims pods and services of a job with one check that the job still exists", async () => {
    const members = [
      asMember("worker", 0, { owner: job }),
      asMember("worker", 1),
      asMember("worker", 2, { owner: testJob("other") }),
      asMember("worker", 3, { labels: {} }),
    ];
    const { controller, freshReads } = world({ pods: members, services: members });
    const canAdopt = controller.recheckDeletionTimestamp(job);
    const pods = await controller.claimPods(job, canAdopt);
    const services = await controller.claimServices(job, canAdopt);
    for (const { claimed, errors } of [pods, services]) {
      expect(claimed.map(({ metadata }) => metadata?.name)).toEqual(["mnist-worker-0", "mnist-worker-1"]);
      expect(errors).toEqual([]);
    }
    expect(freshReads()).toBe(1);
  });

  it("claims no members for a job whose name is no label value, so that its status can state the problem", async () => {
    const { controller } = world();
    const long = testRow("a".repeat(64));
    const claimed = await controller.claimPods(long, controller.recheckDeletionTimestamp(long));
    expect(claimed).toEqual({ claimed: [], errors: [] });
    expect(long.spec).toHaveProperty("problems");
  });

  it("makes a pass for every job in each period", () => {
    const { resync } = world().controller;
    expect(resync.everyMs).toBe(500);
    expect([...resync.keys()]).toEqual(["team/mnist", "team/resnet"]);
  });

  it("protects a gang with a budget", async () => {
    const { controller, sent } = world();
    expect(await controller.syncBudget(job, 3, false)).toBe("created");
    expect(sent).toMatchObject([
      { verb: "create", plural: "poddisruptionbudgets", object: { metadata: { namespace: NAMESPACE } } },
    ]);
    expect(await controller.deleteBudget(job)).toBe(false);
  });
});
