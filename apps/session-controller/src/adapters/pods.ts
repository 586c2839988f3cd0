import type { V1Pod } from "@kubernetes/client-node";
import { throwFault, type Fault } from "@muster/faults";
import { decidePodHealth } from "@muster/health";
import {
  listPages,
  findOverdueNodes,
  requireKubeFault,
  toPodManifest,
  unlessFault,
  unlessMissing,
  withKubeFault,
  type KubeCalls,
  type KubeResource,
} from "@muster/kube";
import { findOtherInstallation, isNamespaceOfOwner, SESSION } from "@muster/names";
import { labels, schedulingGates } from "@muster/proto";
import { findGrantedNode } from "@muster/resources";
import { MAIN_CONTAINER } from "@muster/session-limits";
import type { buildPod } from "../domain/build-pod.ts";
import { isForeign, type OwnedPod } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { LivePod, PodObstacle } from "../domain/snapshot.ts";
import type { PodSeen } from "../domain/summarise-components.ts";

/**
 * The outcome of creating a pod: our pod exists, or an obstacle prevents it. An unconfirmed pod is not scheduled. `node`: the only node on which the pod may
 * run.
 */
export type PodCreation =
  { readonly kind: "created"; readonly uid: string; readonly node: string; readonly confirmed: boolean } | PodObstacle;

type DeleteOptions = {
  /** Deletes without waiting for the pod's node. */
  readonly force: boolean;
  readonly resourceVersion?: string;
  /** Absent: MUSTER_NAMESPACE. */
  readonly namespace?: string | undefined;
};

/** The pods of sessions at the API server. Each method rejects with FaultError while the API server is unavailable. */
export type SessionPods = {
  create(record: SessionRecord, component: string, manifest: ReturnType<typeof buildPod>): Promise<PodCreation>;
  /** Removes the gate of exactly this pod. A missing or replaced pod is a fault: the next creation observes its state. */
  confirm(pod: string, uid: string, namespace?: string): Promise<void>;
  /** Deletes exactly this pod; a missing or replaced pod, or another version, is no error. */
  delete(pod: string, uid: string, options: DeleteOptions): Promise<void>;
  /** Lists the existing pods, uncached and without pods of other installations. */
  ofSession(session: Pick<SessionRecord, "name" | "uid" | "elsewhere">): Promise<LivePod[]>;
  /** Lists the pods of all sessions, including pods of other installations. `everywhere`: also pods of sessions in other namespaces. */
  ofAllSessions(options: { readonly everywhere: boolean }): Promise<OwnedPod[]>;
};

const PAGE = 500;
const PODS: KubeResource = { apiVersion: "v1", plural: "pods" };

/** `installation`: id of this installation. */
export function makePods(calls: KubeCalls, namespace: string, installation: string): SessionPods {
  const podsIn = (of = namespace): KubeResource => ({ ...PODS, namespace: of });
  return {
    create: async (record, component, manifest) => {
      const body = toPodManifest(manifest);
      const pods = podsIn(record.elsewhere?.namespace);
      try {
        // Strict validation rejects unknown fields, which the API server would otherwise drop.
        const made = await calls.create(pods, body, { query: { fieldValidation: "Strict" } });
        return {
          kind: "created",
          uid: made.metadata?.uid ?? "",
          node: getPinnedNode(made),
          confirmed: isConfirmed(made),
        };
      } catch (error) {
        const fault = requireKubeFault(error);
        if (fault.code === "already_exists") {
          const pod = await readExistingPod(calls, pods, manifest.metadata.name, error);
          return adoptPod(pod, record, { component, node: getPinnedNode(body), installation });
        }
        return decideRefusal(fault, component, error);
      }
    },
    confirm: async (pod, uid, of) => {
      // With the uid, the API server rejects the patch if another pod has the name. Foreign gates stay.
      const spec = { schedulingGates: [{ $patch: "delete", name: schedulingGates.unconfirmed }] };
      const body = { metadata: { uid }, spec };
      await withKubeFault(calls.patch(podsIn(of), pod, { kind: "strategic", body }), `confirming pod ${pod}`);
    },
    delete: async (pod, uid, { force, namespace: of, ...version }) => {
      const options = { preconditions: { uid, ...version }, ...(force ? { gracePeriodSeconds: 0 } : {}) };
      // On a conflict, another pod has the name, or the pod has changed.
      const deletion = unlessFault(calls.delete(podsIn(of), pod, options), "not_found", "conflict");
      await withKubeFault(deletion, `deleting pod ${pod}`);
    },
    ofSession: async ({ name, uid, elsewhere }) => {
      const all = await list(
        calls,
        podsIn(elsewhere?.namespace),
        `${labels.ownerKind}=session,${labels.owner}=${name}`,
      );
      const own = all.filter((pod) => !isForeign(ownerOf(pod, installation), uid));
      const nowMs = Date.now();
      const nodes = await findOverdueNodes(calls, own, nowMs);
      return own.map((pod) => toLivePod(pod, nodes.get(pod.metadata?.uid ?? ""), nowMs));
    },
    ofAllSessions: async ({ everywhere }) => {
      const listed = await list(calls, everywhere ? PODS : podsIn(), `${labels.ownerKind}=session`);
      const all = listed.filter(({ metadata }) => canBeOfSession(metadata, namespace));
      const nodes = await findOverdueNodes(calls, all, Date.now());
      return all.map((pod) => ({
        kind: "pod",
        ...(pod.metadata?.namespace !== namespace && { namespace: pod.metadata?.namespace ?? "" }),
        pod: pod.metadata?.name ?? "",
        uid: pod.metadata?.uid ?? "",
        session: pod.metadata?.labels?.[labels.owner] ?? "",
        ...ownerOf(pod, installation),
        deleting: pod.metadata?.deletionTimestamp !== undefined,
        overdueOn: nodes.get(pod.metadata?.uid ?? ""),
        createdAtMs: new Date(pod.metadata?.creationTimestamp ?? 0).getTime(),
      }));
    },
  };
}

/** Returns whether the pod is in the namespace of the session that its labels name. Users of any namespace can set the labels. */
function canBeOfSession(metadata: V1Pod["metadata"], own: string): boolean {
  const owner = { kind: SESSION, id: metadata?.labels?.[labels.owner] ?? "" };
  return isNamespaceOfOwner(owner, metadata?.namespace ?? "", own);
}

export function isConfirmed({ spec }: V1Pod): boolean {
  return !(spec?.schedulingGates ?? []).some(({ name }) => name === schedulingGates.unconfirmed);
}

function ownerOf({ metadata }: V1Pod, installation: string): Pick<OwnedPod, "ownerUid" | "otherInstallation"> {
  const own = metadata?.labels ?? {};
  return {
    ownerUid: own[labels.ownerUid] ?? "",
    otherInstallation: findOtherInstallation(own[labels.installation], installation),
  };
}

/** Reads the pod with this name; `taken` is the API server's refusal to create another pod of the name. */
async function readExistingPod(calls: KubeCalls, pods: KubeResource, name: string, taken: unknown): Promise<V1Pod> {
  const pod = await withKubeFault(unlessMissing(calls.get<V1Pod>(pods, name)), `reading pod ${name}`);
  if (pod !== undefined) return pod;
  // The pod was removed between the two calls: the next attempt succeeds.
  return throwFault({ code: "unavailable", dependency: `pod name ${name}`, retryAfterMs: 100 }, { cause: taken });
}

/** Returns the only node that the pod may be scheduled on. */
export function getPinnedNode({ spec }: Pick<V1Pod, "spec">): string {
  return findGrantedNode(spec?.affinity) ?? "";
}

/** Classifies the pod with this name: created by an earlier executor, left over from an earlier session, or foreign. */
export function adoptPod(
  pod: V1Pod,
  record: SessionRecord,
  {
    component,
    node,
    installation,
  }: { readonly component: string; readonly node: string; readonly installation: string },
): PodCreation {
  const { name = "", uid = "", labels: owner = {} } = pod.metadata ?? {};
  const whose = ownerOf(pod, installation);
  const isForeigners = isForeign(whose, record.uid);
  if (owner[labels.ownerKind] === "session" && owner[labels.owner] === record.name && !isForeigners) {
    // A pod pinned to a machine that the component has lost meanwhile cannot start.
    const isOurs = whose.ownerUid === record.uid && (getPinnedNode(pod) === node || startedContainers(pod).length > 0);
    return isOurs
      ? { kind: "created", uid, node: getPinnedNode(pod), confirmed: isConfirmed(pod) }
      : { kind: "leftover", component, pod: name, uid };
  }
  const kind = owner[labels.ownerKind] ?? "";
  const other = owner[labels.owner] === undefined ? "another owner" : `${kind} ${owner[labels.owner] ?? ""}`;
  const of = isForeigners ? ` of installation ${whose.otherInstallation ?? ""}` : "";
  return { kind: "refused", component, reason: "POD_NAME_TAKEN", message: `pod ${name} belongs to ${other}${of}` };
}

/** Returns the refusal for a permanent fault, which ends the session. Rethrows every other fault, which is retried. */
function decideRefusal(fault: Fault, component: string, error: unknown): PodCreation {
  switch (fault.code) {
    case "invalid_request":
      return {
        kind: "refused",
        component,
        reason: "POD_REFUSED",
        message: `${fault.field}: ${fault.reason}`.slice(0, 1024),
      };
    case "not_found":
      return { kind: "refused", component, reason: "POD_REFUSED", message: `${fault.kind} ${fault.id} does not exist` };
    default:
      return throwFault(fault, { cause: error, doing: `making the pod of ${component}` });
  }
}

async function list(calls: KubeCalls, resource: KubeResource, labelSelector: string): Promise<V1Pod[]> {
  const pods: V1Pod[] = [];
  const read = async (): Promise<void> => {
    for await (const page of listPages<V1Pod>(calls, resource, { query: { labelSelector } }, PAGE)) pods.push(...page);
  };
  await withKubeFault(read(), "listing pods");
  return pods;
}

/** Converts a listed pod. `overdueOn`: its node, once the pod should have ended. */
export function toLivePod(pod: V1Pod, overdueOn: LivePod["overdueOn"], nowMs: number): LivePod {
  const seen = podSeenOf(pod, nowMs);
  return {
    pod: seen.pod,
    uid: seen.uid,
    deleting: pod.metadata?.deletionTimestamp !== undefined,
    seen,
    overdueOn,
    ended: pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed",
    containers: startedContainers(pod),
    leftText: leftText(pod),
  };
}

/** Returns the state of a listed pod. Start problems are no end here, because only a watcher measures how long they last. */
function podSeenOf(pod: V1Pod, nowMs: number): PodSeen {
  const { metadata, spec, status } = pod;
  const judged = decidePodHealth(pod, { startGraceMs: Infinity, nowMs, mainContainer: MAIN_CONTAINER });
  return {
    pod: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    podIp: status?.podIP ?? "",
    node: spec?.nodeName ?? "",
    health: judged.health,
    reason: judged.reason,
    message: judged.message,
    deleted: false,
    exitCode: judged.exitCode,
  };
}

function leftText({ status }: V1Pod): string {
  const main = status?.containerStatuses?.find(({ name }) => name === MAIN_CONTAINER);
  return main?.state?.terminated?.message ?? "";
}

/** Returns the started containers; only started containers have a log. */
function startedContainers(pod: V1Pod): string[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  return [...initContainerStatuses, ...containerStatuses]
    .filter(({ state, lastState }) => (state?.running ?? state?.terminated ?? lastState?.terminated) !== undefined)
    .map(({ name }) => name);
}
