import { CoreV1Api, type KubeConfig, PatchStrategy, setHeaderOptions, type V1Pod } from "@kubernetes/client-node";
import { FaultError, throwFault, type Fault } from "@muster/faults";
import { kubeClient, kubeFault } from "@muster/kube";
import { otherInstallation } from "@muster/names";
import { labels, schedulingGates } from "@muster/proto";
import { MAIN_CONTAINER, type buildPod } from "../domain/build-pod.ts";
import { isForeign, type OwnedPod } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { LivePod, Obstacle } from "../domain/snapshot.ts";
import { overdueNodes } from "./overdue-nodes.ts";

/** What came of making a pod: it is there and it is ours, or what stood in the way. One that is not confirmed is placed nowhere. */
export type Created = { readonly kind: "created"; readonly uid: string; readonly confirmed: boolean } | Obstacle;

/** The pods of sessions at the API server. Everything rejects with FaultError while the API server is away. */
export type Pods = {
  create(record: SessionRecord, component: string, manifest: ReturnType<typeof buildPod>): Promise<Created>;
  /** Lets exactly this pod be placed on its machine. One that is gone or was replaced is a fault: the next attempt to make it finds out what there is. */
  confirm(pod: string, uid: string): Promise<void>;
  /** Asks for the deletion of exactly this pod, forced without its node's word; one that is gone or was replaced is no error. */
  delete(pod: string, uid: string, force: boolean): Promise<void>;
  /** The pods that are there now, not those of a cache, without those of other installations. */
  ofSession(session: Pick<SessionRecord, "name" | "uid">): Promise<LivePod[]>;
  /** Those of other installations, too. */
  ofAllSessions(): Promise<OwnedPod[]>;
};

const CALL_TIMEOUT_MS = 10_000;
const PAGE = 500;
const STRATEGIC = setHeaderOptions("Content-Type", PatchStrategy.StrategicMergePatch);

/** `installation`: id of ours. */
export function kubePods(config: KubeConfig, namespace: string, installation: string): Pods {
  const api = kubeClient(config, CoreV1Api, { timeoutMs: CALL_TIMEOUT_MS });
  return {
    create: async (record, component, manifest) => {
      try {
        const made = await api.createNamespacedPod({ namespace, body: manifest });
        return { kind: "created", uid: made.metadata?.uid ?? "", confirmed: isConfirmed(made) };
      } catch (error) {
        const fault = faultOrThrow(error);
        if (fault.code === "already_exists") {
          const pod = await readTaken(api, namespace, manifest.metadata.name, error);
          return adopt(pod, record, component, installation);
        }
        return decideRefusal(fault, component, error);
      }
    },
    confirm: async (pod, uid) => {
      try {
        // The uid makes the API server refuse it for another pod of that name. Gates of others stay.
        const spec = { schedulingGates: [{ $patch: "delete", name: schedulingGates.unconfirmed }] };
        await api.patchNamespacedPod({ name: pod, namespace, body: { metadata: { uid }, spec } }, STRATEGIC);
      } catch (error) {
        throw raised(faultOrThrow(error), error, `confirming pod ${pod}`);
      }
    },
    delete: async (pod, uid, force) => {
      const body = { preconditions: { uid }, ...(force ? { gracePeriodSeconds: 0 } : {}) };
      try {
        await api.deleteNamespacedPod({ name: pod, namespace, body });
      } catch (error) {
        const fault = faultOrThrow(error);
        // A conflict means that the name now belongs to another pod.
        if (fault.code !== "not_found" && fault.code !== "conflict") throw raised(fault, error, `deleting pod ${pod}`);
      }
    },
    ofSession: async ({ name, uid }) => {
      const found = await list(api, namespace, `${labels.ownerKind}=session,${labels.owner}=${name}`);
      const pods = found.filter((pod) => !isForeign(ownerOf(pod, installation), uid));
      const nodes = await overdueNodes(api, pods, Date.now());
      return pods.map((pod) => ({
        pod: pod.metadata?.name ?? "",
        uid: pod.metadata?.uid ?? "",
        deleting: pod.metadata?.deletionTimestamp !== undefined,
        overdueOn: nodes.get(pod.metadata?.uid ?? ""),
        containers: startedContainers(pod),
        leftText: leftText(pod),
      }));
    },
    ofAllSessions: async () => {
      const pods = await list(api, namespace, `${labels.ownerKind}=session`);
      const nodes = await overdueNodes(api, pods, Date.now());
      return pods.map((pod) => ({
        pod: pod.metadata?.name ?? "",
        uid: pod.metadata?.uid ?? "",
        session: pod.metadata?.labels?.[labels.owner] ?? "",
        ...ownerOf(pod, installation),
        deleting: pod.metadata?.deletionTimestamp !== undefined,
        overdueOn: nodes.get(pod.metadata?.uid ?? ""),
        createdAtMs: pod.metadata?.creationTimestamp?.getTime() ?? 0,
      }));
    },
  };
}

function isConfirmed({ spec }: V1Pod): boolean {
  return !(spec?.schedulingGates ?? []).some(({ name }) => name === schedulingGates.unconfirmed);
}

function ownerOf({ metadata }: V1Pod, installation: string): Pick<OwnedPod, "ownerUid" | "otherInstallation"> {
  const own = metadata?.labels ?? {};
  return {
    ownerUid: own[labels.ownerUid] ?? "",
    otherInstallation: otherInstallation(own[labels.installation], installation),
  };
}

/** The pod that has the name; `taken` is what the API server said when another one was to get it. */
async function readTaken(api: CoreV1Api, namespace: string, name: string, taken: unknown): Promise<V1Pod> {
  try {
    return await api.readNamespacedPod({ name, namespace });
  } catch (error) {
    const fault = faultOrThrow(error);
    // Gone between the two calls: making it again succeeds.
    if (fault.code === "not_found") {
      return throwFault({ code: "unavailable", dependency: `pod name ${name}`, retryAfterMs: 100 }, { cause: taken });
    }
    throw raised(fault, error, `reading pod ${name}`);
  }
}

/** The pod of that name was made by an executor before us, is left from an earlier session, or belongs to somebody else. */
function adopt(pod: V1Pod, record: SessionRecord, component: string, installation: string): Created {
  const { name = "", uid = "", labels: owner = {} } = pod.metadata ?? {};
  const whose = ownerOf(pod, installation);
  const isForeigners = isForeign(whose, record.uid);
  if (owner[labels.ownerKind] === "session" && owner[labels.owner] === record.name && !isForeigners) {
    if (whose.ownerUid === record.uid) return { kind: "created", uid, confirmed: isConfirmed(pod) };
    return { kind: "leftover", component, pod: name, uid };
  }
  const kind = owner[labels.ownerKind] ?? "";
  const somebody = owner[labels.owner] === undefined ? "somebody else" : `${kind} ${owner[labels.owner] ?? ""}`;
  const of = isForeigners ? ` of installation ${whose.otherInstallation ?? ""}` : "";
  return { kind: "refused", component, reason: "POD_NAME_TAKEN", message: `pod ${name} belongs to ${somebody}${of}` };
}

/** Refusals that stay refusals end the session; everything else is tried again. */
function decideRefusal(fault: Fault, component: string, error: unknown): Created {
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
      throw raised(fault, error, `making the pod of ${component}`);
  }
}

async function list(api: CoreV1Api, namespace: string, labelSelector: string): Promise<V1Pod[]> {
  const pods: V1Pod[] = [];
  let next: string | undefined;
  do {
    try {
      const page = await api.listNamespacedPod({
        namespace,
        labelSelector,
        limit: PAGE,
        ...(next === undefined ? {} : { _continue: next }),
      });
      pods.push(...page.items);
      next = page.metadata?._continue === "" ? undefined : page.metadata?._continue;
    } catch (error) {
      throw raised(faultOrThrow(error), error, "listing pods");
    }
  } while (next !== undefined);
  return pods;
}

function leftText({ status }: V1Pod): string {
  const main = status?.containerStatuses?.find(({ name }) => name === MAIN_CONTAINER);
  return main?.state?.terminated?.message ?? "";
}

/** Only a container that has started has a log. */
function startedContainers(pod: V1Pod): string[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  return [...initContainerStatuses, ...containerStatuses]
    .filter(({ state, lastState }) => (state?.running ?? state?.terminated ?? lastState?.terminated) !== undefined)
    .map(({ name }) => name);
}

/** Errors that are nobody's refusal and not the network's are defects, and stay what they are. */
export function faultOrThrow(error: unknown): Fault {
  const fault = kubeFault(error);
  if (fault === undefined) throw error;
  return fault;
}

function raised(fault: Fault, cause: unknown, doing: string): FaultError {
  return new FaultError(fault, { cause, doing });
}
