import { formatHostPort } from "./build-pod.ts";
import { isReplacing, getPodName, type ComponentStatus, type PodHealth, type SessionRecord } from "./session.ts";

/** The newest known state of one pod. */
export type PodSeen = {
  readonly pod: string;
  readonly uid: string;
  /** Kubernetes' resource version as a number: of two states of one uid, the higher is newer. */
  readonly resourceVersion: number;
  readonly podIp: string;
  readonly node: string;
  readonly health: PodHealth;
  readonly reason: string;
  readonly message: string;
  readonly deleted: boolean;
  readonly exitCode: number | undefined;
};

/** Length limits of one message and of all messages of a session, which one record stores, in characters of up to three bytes. */
const MESSAGE_LENGTH = 256;
const MESSAGES_LENGTH = 20_000;

/**
 * Returns the status of each component, in declared order: the recorded status, updated from the newest published or listed state of exactly its pod. A pod
 * that the API server no longer lists, and whose end is unknown, is gone. A pod that is deleted before it succeeded makes its component FAILED, which ends the
 * session with COMPONENT_FAILED (`decideComponentFailure`), unless its machine is lost before it started (`replaceMachines`). `listed` was listed after the
 * record was written; undefined: not listed.
 */
export function summariseComponents(
  record: SessionRecord,
  pods: readonly PodSeen[],
  listed: readonly PodSeen[] | undefined,
): ComponentStatus[] {
  const byName = new Map(pods.map((pod) => [pod.pod, pod]));
  const listedByUid = listed && new Map(listed.map((pod) => [pod.uid, pod]));
  const readyPorts = new Map(record.spec.components.map(({ name, readyPort }) => [name, readyPort]));
  return record.components.map((component) => {
    if (hasEnded(component) || isReplacing(component) || component.podUid === "") return component;
    const published = byName.get(getPodName(record, component.name));
    const live = listedByUid?.get(component.podUid);
    const seen = newestOf(published?.uid === component.podUid ? published : undefined, live);
    if (seen === undefined) {
      return listed !== undefined
        ? { ...component, state: "FAILED", message: "PodGone: the pod is gone, and its end was not observed" }
        : component;
    }
    return {
      ...component,
      node: seen.node === "" ? component.node : seen.node,
      podIp: seen.podIp === "" ? component.podIp : seen.podIp,
      state: seen.deleted && seen.health !== "SUCCEEDED" ? "FAILED" : seen.health,
      message: messageOf(seen, readyPorts.get(component.name) ?? 0, record),
      exitCode: seen.exitCode,
    };
  });
}

/** Returns the listed state if it is newer. A published end takes precedence, because a watcher also derives ends from the time and the node. */
function newestOf(published: PodSeen | undefined, live: PodSeen | undefined): PodSeen | undefined {
  if (published === undefined || live === undefined) return published ?? live;
  return hasPodEnded(published) || live.resourceVersion <= published.resourceVersion ? published : live;
}

export function hasPodEnded({ deleted, health }: Pick<PodSeen, "deleted" | "health">): boolean {
  return deleted || health === "SUCCEEDED" || health === "FAILED";
}

export function hasEnded(component: Pick<ComponentStatus, "state">): boolean {
  return component.state === "SUCCEEDED" || component.state === "FAILED";
}

function messageOf(pod: PodSeen, readyPort: number, record: SessionRecord): string {
  const isProbed = pod.reason === "ProbeFailing" && pod.podIp !== "" && readyPort !== 0;
  const why = isProbed ? `no connection to ${formatHostPort(pod.podIp, readyPort)}, its readyPort` : pod.message;
  const words = [pod.reason, why].filter((word) => word !== "");
  if (words.length === 0 && pod.deleted && pod.health !== "SUCCEEDED") return "the pod was deleted";
  return truncateMessage(words.join(": "), record);
}

/** Truncates a message to its share of the record. */
export function truncateMessage(text: string, { components }: Pick<SessionRecord, "components">): string {
  const length = Math.min(MESSAGE_LENGTH, Math.floor(MESSAGES_LENGTH / components.length));
  return text.length > length ? `${text.slice(0, length - 3)}...` : text;
}
