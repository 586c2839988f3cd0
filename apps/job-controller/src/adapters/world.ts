import type { KubeConfig, V1Pod, V1PodDisruptionBudget, V1Service } from "@kubernetes/client-node";
import type { Logger } from "@muster/service";
import { openInformer, listWatch, openPodDefaults, buildResourcePath, type Informer } from "@muster/kube";
import { JOB, canBeOwner } from "@muster/names";
import { labels } from "@muster/proto";
import type { PodDefaults } from "@muster/resources";
import { findFollowedNamespace, type Config } from "../config.ts";
import { KINDS } from "../domain/kinds.ts";
import type { Labels } from "../domain/member-labels.ts";
import { findController } from "../domain/ownership.ts";
import type { BudgetSeen, PodFact } from "../domain/snapshot.ts";
import { isSelectingExactly } from "../members/budget.ts";
import { makeClaimantIndex } from "../members/claimant-index.ts";
import { makePodEnds, type PodEnds } from "./pod-ends.ts";
import { keepForeignPod, keepPod, mayBeMember, toPodFact } from "./read-pod.ts";
import { canRun } from "../domain/job-pods.ts";

/** The objects of jobs, as caches of the API server have them. */
export type World = AsyncDisposable & {
  readonly pods: Informer<V1Pod, "claimant" | "owner">;
  readonly services: Informer<V1Service, "claimant">;
  /** The ends of pods that this process observed while it led. */
  readonly ends: Pick<PodEnds, "of" | "forget" | "forgetJob">;
  /** Records the ends of pods until it is disposed of. */
  rememberEnds(): Disposable;
  /** Resolves once every cache is complete; rejects with FaultError cancelled after an earlier disposal. */
  readonly synced: Promise<unknown>;
  /** Whether `synced` has resolved. */
  isComplete(): boolean;
  /** Names the resources that were not read yet; empty once all were. */
  unread(): readonly string[];
  /** Returns the job's own budget for the pods with these labels; undefined if it has none. */
  budgetOf(
    job: { readonly namespace: string; readonly name: string; readonly uid: string },
    labels: Labels,
  ): BudgetSeen | undefined;
  /** Calls the listener with the `namespace/name` of each changed budget, which has the name of its job. Returns the function that unsubscribes. */
  onBudgetChange(listener: (key: string) => void): () => void;
  /** The requests that LimitRanges of the namespace and RuntimeClasses add to pods. */
  podDefaults(namespace: string): PodDefaults;
  /** Lists pods of this owner id that may still run, whichever owner they have now. */
  runningFor(ownerId: string): readonly PodFact[];
  /** Returns the age of the oldest cache. */
  ageMs(): number;
};

/** Follows the pods, services and budgets of one namespace or of all, whichever owner they have, because a job may adopt an orphan later. */
export function openWorld(
  kube: KubeConfig,
  { config, logger }: { readonly config: Config; readonly logger: Logger },
): World {
  const namespace = findFollowedNamespace(config.kube);
  const pathOf = (apiVersion: string, plural: string): string => buildResourcePath({ apiVersion, plural, namespace });
  const onError = (error: unknown, retryInMs: number): void =>
    logger.warn({ err: error, retryInMs }, "following the API server is interrupted");
  const claimant = claimants();
  const pods = openInformer<V1Pod, V1Pod, "claimant" | "owner">({
    source: listWatch<V1Pod>(kube, pathOf("v1", "pods")),
    project: (pod) => (mayBeMember(pod) ? keepPod(pod) : keepForeignPod(pod)),
    indexes: {
      claimant,
      owner: (pod) => listOwners(pod, config.kube.namespace),
    },
    onError,
  });
  const ends = makePodEnds((most) =>
    logger.warn(
      { most },
      "more pods have ended than are remembered: the end of a pod that is deleted now may not count",
    ),
  );
  pods.onChange(ends.seen);
  const services = openInformer<V1Service, V1Service, "claimant">({
    source: listWatch<V1Service>(kube, pathOf("v1", "services")),
    project: ({ metadata }) => ({ ...(metadata !== undefined && { metadata }) }),
    indexes: { claimant },
    onError,
  });
  const budgets = openInformer<V1PodDisruptionBudget, Budget>({
    source: listWatch<V1PodDisruptionBudget>(kube, pathOf("policy/v1", "poddisruptionbudgets")),
    project: (budget) => ({ spec: budget.spec, controllerUid: findController(budget)?.uid }),
    onError,
  });
  const onUnserved = (path: string): void =>
    logger.info({ path }, "the API server does not serve a resource that adds requests to pods");
  const defaults = openPodDefaults(kube, { namespace, onError, onUnserved });
  const caches = [pods, services, budgets];
  const synced = Promise.all([...caches.map((cache) => cache.synced), defaults.synced]);
  // A replica that never leads does not await the promise, and its rejection must not end the process.
  synced.catch(() => undefined);
  return {
    pods,
    services,
    ends,
    rememberEnds: () => ends.begin(pods.list()),
    synced,
    isComplete: () => caches.every((cache) => Number.isFinite(cache.listAgeMs())) && defaults.isSynced(),
    podDefaults: defaults.current,
    unread: () => (Number.isFinite(pods.listAgeMs()) ? [] : ["pods"]),
    budgetOf: ({ namespace, name, uid }, labels) => {
      const budget = budgets.get(`${namespace}/${name}`);
      if (budget?.controllerUid !== uid) return undefined;
      return readBudget(budget.spec, labels);
    },
    onBudgetChange: (listener) => budgets.onChange(({ key }) => listener(key)),
    runningFor: (ownerId) => pods.byIndex("owner", ownerId).map(toPodFact).filter(canRun),
    ageMs: () => Math.max(...caches.map((cache) => cache.ageMs())),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...caches, defaults].map((cache) => cache[Symbol.asyncDispose]()));
    },
  };
}

/** Returns the owner id in the labels. Users of other namespaces can set labels as well, so in these namespaces the job must control the pod. */
export function listOwners({ metadata = {} }: V1Pod, namespace: string): readonly string[] {
  const id = metadata.labels?.[labels.owner];
  if (id === undefined) return [];
  const pod = {
    namespace: metadata.namespace ?? "",
    uid: metadata.uid ?? "",
    controller: findController({ metadata }),
  };
  return pod.namespace === namespace || canBeOwner({ kind: JOB, id }, pod) ? [id] : [];
}

type Budget = {
  readonly spec: V1PodDisruptionBudget["spec"];
  readonly controllerUid: string | undefined;
};

/** Reads a budget in any form, because people may have edited it. */
export function readBudget(spec: V1PodDisruptionBudget["spec"], labels: Labels): BudgetSeen {
  const { minAvailable, maxUnavailable, selector } = spec ?? {};
  const isOfOurForm = typeof minAvailable === "number" && maxUnavailable === undefined;
  return isOfOurForm && isSelectingExactly(selector, labels) ? minAvailable : "edited";
}

/** Indexes members by the jobs that may claim them. Kinds that share a label find the same orphan; their API groups distinguish them. */
function claimants(): (member: V1Pod | V1Service) => readonly string[] {
  const schemes = new Map(KINDS.map(({ labelKeys }) => [labelKeys.jobNameLabelKey, makeClaimantIndex(labelKeys)]));
  return (member) => [...new Set([...schemes.values()].flatMap((index) => index(member)))];
}
