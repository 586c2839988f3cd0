import fc from "fast-check";
import { expect, it } from "vitest";
import { makeLaggingCluster, type LaggingCluster, type Luck } from "../../test/lagging-cluster.ts";
import { KIND, nameOf, NAMESPACE, buildReplicaLabels, testRow } from "../../test/member-world.ts";
import { findController, isDeleting, getLabels, buildOwnerReference, type MemberObject } from "../domain/ownership.ts";
import { filterPods, slicePods } from "../domain/slice-pods.ts";
import { makeClaimantIndex } from "../members/claimant-index.ts";
import { makeExpectations, buildPodsKey } from "../members/expectations.ts";
import { makeKindController, type KindController } from "./kind-controller.ts";

const TYPES = ["worker", "ps"] as const;
const job = testRow("mnist");
const during = {
  signal: new AbortController().signal,
  isHeld: () => true,
  requireCurrent: () => Promise.resolve(),
};

function podOf(type: string, index: number) {
  const ownerReferences = [buildOwnerReference(KIND, job.metadata)];
  const labels = { ...buildReplicaLabels("mnist", type, index) };
  return { metadata: { name: `mnist-${type}-${index}`, namespace: NAMESPACE, labels, ownerReferences } };
}

type Step =
  | { readonly kind: "pass" | "end-grace" }
  | { readonly kind: "hear"; readonly changes: number }
  | { readonly kind: "scale"; readonly replicas: number }
  | { readonly kind: "remove" | "relabel" | "move"; readonly pod: string };

const podName = fc.tuple(fc.constantFrom(...TYPES), fc.nat(4)).map(([type, index]) => `mnist-${type}-${index}`);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("pass" as const) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("hear" as const), changes: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("end-grace" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("scale" as const), replicas: fc.nat(5) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("remove" as const, "relabel" as const, "move" as const),
      pod: podName,
    }),
  },
);

/** Makes one pass of an operator with two independent replica types. */
async function pass(controller: KindController, replicas: number): Promise<void> {
  const { claimed } = await controller.claimPods(job, controller.recheckDeletionTimestamp(job));
  for (const type of TYPES) {
    if (!controller.expectations.satisfied(buildPodsKey(job.metadata.uid, type))) continue;
    const { slots, surplus } = slicePods(filterPods(claimed, type, KIND.labelKeys), replicas, KIND.labelKeys);
    const missing = slots.flatMap((pod, index) => (pod === undefined ? [podOf(type, index)] : []));
    await controller.createPods(job, type, missing, during);
    await controller.deletePods(
      job,
      type,
      surplus.map(({ member }) => member),
    );
  }
}

function world(lucks: readonly Luck[], coins: readonly number[]) {
  const state = { calm: false, at: 0, replicas: 3 };
  const draw = (): number => coins[(state.at += 1) % coins.length] ?? 0;
  const index = makeClaimantIndex(KIND.labelKeys);
  const cluster: LaggingCluster = makeLaggingCluster({
    luck: () => (state.calm ? "answered" : (lucks[draw() % lucks.length] ?? "answered")),
    isGraceful: () => draw() % 2 === 0,
    duringCall: () => cluster.hear(state.calm ? 0 : draw() % 3),
    onChange: (change) => controller.changePod(change),
  });
  // The clock stands still, because no result may depend on expired expectations.
  const expectations = makeExpectations(() => 0);
  const controller: KindController = makeKindController(KIND, {
    calls: cluster.calls,
    pods: { byIndex: (_name, value) => cluster.cached().filter((pod) => index(pod).includes(value)) },
    services: { byIndex: () => [] },
    jobs: () => [job],
    job: () => job,
    readJob: () => Promise.resolve(job),
    enqueue: () => undefined,
    recordEvent: () => undefined,
    expectations,
    syncPeriodMs: 15_000,
  });
  return { state, cluster, controller, expectations };
}

async function take({ state, cluster, controller }: ReturnType<typeof world>, each: Step): Promise<void> {
  switch (each.kind) {
    case "pass":
      return pass(controller, state.replicas);
    case "hear":
      cluster.hear(each.changes);
      return;
    case "end-grace":
      cluster.endGrace();
      return;
    case "scale":
      state.replicas = each.replicas;
      return;
    case "remove":
      cluster.remove(each.pod);
      return;
    case "relabel":
      cluster.label(each.pod, { ...buildReplicaLabels("missing", "worker", 0) });
      return;
    case "move":
      cluster.label(each.pod, { ...buildReplicaLabels("mnist", "ps", 1) });
      return;
  }
}

function replicaOf(pod: MemberObject): string {
  const labels = getLabels(pod);
  const of = (key: string): string => labels[key] ?? "";
  const { jobNameLabelKey, replicaTypeLabelKey, replicaIndexLabelKey } = KIND.labelKeys;
  return [jobNameLabelKey, replicaTypeLabelKey, replicaIndexLabelKey].map(of).join("-");
}

it("whatever happens, and however late the cache learns it, a quiet cluster ends with exactly the desired pods", async () => {
  const lucks = fc.array(fc.constantFrom<Luck>("answered", "answered", "unheard", "refused"), {
    minLength: 1,
    maxLength: 9,
  });
  const coins = fc.array(fc.nat(100), { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), lucks, coins, async (steps, luck, coin) => {
      const made = world(luck, coin);
      const { state, cluster, controller, expectations } = made;
      for (const each of steps) await take(made, each);
      state.calm = true;
      for (let round = 0; round < 6; round += 1) {
        cluster.endGrace();
        // A pod whose labels differ from its name blocks that name until the pod is deleted or relabelled.
        for (const pod of cluster.stored()) if (replicaOf(pod) !== nameOf(pod)) cluster.remove(nameOf(pod));
        cluster.endGrace();
        cluster.hear(Infinity);
        await pass(controller, state.replicas);
      }
      cluster.endGrace();
      cluster.hear(Infinity);
      const wanted = TYPES.flatMap((type) =>
        Array.from({ length: state.replicas }, (_, index) => `mnist-${type}-${index}`),
      );
      const found = cluster
        .stored()
        .filter((pod) => findController(pod)?.uid === job.metadata.uid && !isDeleting(pod))
        .map(replicaOf);
      expect(found.sort()).toEqual(wanted.sort());
      expect(expectations.size()).toBe(0);
    }),
    { numRuns: 300 },
  );
});
