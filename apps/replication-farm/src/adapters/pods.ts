import type { V1Pod } from "@kubernetes/client-node";
import { FaultError, throwFault } from "@muster/faults";
import type { NodeSeen } from "@muster/health";
import {
  findOverdueNodes,
  requireKubeFault,
  toPodManifest,
  unlessFault,
  unlessMissing,
  withKubeFault,
  type KubeCalls,
} from "@muster/kube";
import { findOtherInstallation } from "@muster/names";
import { annotations, labels, schedulingGates } from "@muster/proto";
import { OWNER_KIND, type PodManifest } from "../domain/build-pod.ts";
import type { OwnedPod } from "../domain/plan-sweep.ts";

/** The result of creating a pod: it exists and belongs to the set, its name belongs to another owner, or the API server rejects it permanently. */
export type CreateOutcome =
  | { readonly kind: "made"; readonly uid: string; readonly confirmed: boolean }
  | { readonly kind: "name-taken" }
  | { readonly kind: "refused"; readonly message: string };

/** The pods of replica sets at the API server. Every method rejects with FaultError while the API server is unavailable. */
export type FarmPods = {
  create(manifest: PodManifest): Promise<CreateOutcome>;
  /** Throws invalid_request when the API server would refuse the pod. */
  check(manifest: PodManifest): Promise<void>;
  /** Removes the scheduling gate of exactly this pod; ignores a pod that is missing or was replaced. */
  confirm(pod: string, uid: string): Promise<void>;
  /** Removes the labels by which exactly this pod belongs to the set: the pod stays, without an owner. */
  delete(pod: string, uid: string, force: boolean): Promise<void>;
  /** Removes the labels that make exactly this pod the set's: it stays, without an owner. */
  abandon(pod: string, uid: string): Promise<void>;
  /** Reads all pods of the set, or of all sets, from the API server instead of a cache, including those of other installations. */
  list(set?: string): Promise<OwnedPod[]>;
};

const PAGE = 500;
const MAX_MESSAGE_LENGTH = 1024;

/** `installation`: id of this installation. */
export function makePods(calls: KubeCalls, namespace: string, installation: string): FarmPods {
  const resource = { apiVersion: "v1", plural: "pods", namespace };
  const patch = (pod: string, body: unknown): Promise<V1Pod | undefined> =>
    // A conflict: the name now belongs to a pod with another uid.
    withKubeFault(unlessFault(calls.patch<V1Pod>(resource, pod, { kind: "strategic", body }), "not_found", "conflict"));
  return {
    create: async (manifest) => {
      try {
        return toCreateOutcome(await calls.create<V1Pod>(resource, toPodManifest(manifest)));
      } catch (error) {
        const fault = requireKubeFault(error);
        if (fault.code === "already_exists") {
          const pod = await withKubeFault(unlessMissing(calls.get<V1Pod>(resource, manifest.metadata.name)));
          return pod === undefined ? throwVanished(manifest) : adopt(pod, manifest);
        }
        if (fault.code === "invalid_request") return refused(`${fault.field}: ${fault.reason}`);
        if (fault.code === "not_found") return refused(`${fault.kind} ${fault.id} does not exist`);
        throw new FaultError(fault, { cause: error });
      }
    },
    check: async (manifest) => {
      // The API server validates the manifest first. A taken name is not a fault of the manifest: the placement gets another ordinal.
      const query = { dryRun: "All", fieldValidation: "Strict" };
      await withKubeFault(unlessFault(calls.create(resource, toPodManifest(manifest), { query }), "already_exists"));
    },
    confirm: async (pod, uid) => {
      const spec = { schedulingGates: [{ $patch: "delete", name: schedulingGates.unconfirmed }] };
      await patch(pod, { metadata: { uid }, spec });
    },
    delete: async (pod, uid, force) => {
      const options = { preconditions: { uid }, ...(force && { gracePeriodSeconds: 0 }) };
      await withKubeFault(unlessFault(calls.delete(resource, pod, options), "not_found", "conflict"));
    },
    abandon: async (pod, uid) => {
      const { ownerKind, owner, ownerUid, component, replicationController, installation: made } = labels;
      const names = [ownerKind, owner, ownerUid, component, replicationController, made];
      await patch(pod, { metadata: { uid, labels: Object.fromEntries(names.map((name) => [name, null])) } });
    },
    list: async (set) => {
      const labelSelector = `${labels.ownerKind}=${OWNER_KIND}${set === undefined ? "" : `,${labels.owner}=${set}`}`;
      const pods: OwnedPod[] = [];
      for (let next: string | undefined; ;) {
        const query = { labelSelector, limit: PAGE, continue: next };
        const page = await withKubeFault(calls.list<V1Pod>(resource, { query }));
        const overdue = await findOverdueNodes(calls, page.items, Date.now());
        pods.push(...page.items.map((pod) => ownedPod(pod, installation, overdue.get(pod.metadata?.uid ?? ""))));
        next = page.continue;
        if (next === undefined) return pods;
      }
    },
  };
}

function ownedPod({ metadata, spec }: V1Pod, installation: string, overdueOn: NodeSeen | undefined): OwnedPod {
  const own = metadata?.labels ?? {};
  return {
    pod: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    set: own[labels.owner] ?? "",
    setUid: own[labels.ownerUid] ?? "",
    otherInstallation: findOtherInstallation(own[labels.installation], installation),
    node: spec?.nodeName ?? "",
    deleting: metadata?.deletionTimestamp !== undefined,
    overdueOn,
    kept: metadata?.annotations?.[annotations.kept] !== undefined,
  };
}

function toCreateOutcome({ metadata, spec }: V1Pod): CreateOutcome {
  const gates = spec?.schedulingGates ?? [];
  const confirmed = !gates.some(({ name }) => name === schedulingGates.unconfirmed);
  return { kind: "made", uid: metadata?.uid ?? "", confirmed };
}

function adopt(pod: V1Pod, { metadata }: PodManifest): CreateOutcome {
  const own = pod.metadata?.labels ?? {};
  const names = [labels.ownerKind, labels.owner, labels.ownerUid];
  return names.every((name) => own[name] === metadata.labels[name]) ? toCreateOutcome(pod) : { kind: "name-taken" };
}

/** The pod was deleted between two calls; a retry succeeds. */
function throwVanished({ metadata }: PodManifest): never {
  return throwFault({ code: "unavailable", dependency: `pod name ${metadata.name}`, retryAfterMs: 100 });
}

function refused(message: string): CreateOutcome {
  return { kind: "refused", message: message.slice(0, MAX_MESSAGE_LENGTH) };
}
