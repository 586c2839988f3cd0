import { podName, type ComponentStatus, type PodHealth, type SessionRecord } from "./session.ts";

/** The newest that is known of one pod. */
export type PodSeen = {
  readonly pod: string;
  readonly uid: string;
  readonly podIp: string;
  readonly node: string;
  readonly health: PodHealth;
  readonly reason: string;
  readonly message: string;
  readonly deleted: boolean;
  readonly exitCode: number | undefined;
};

/** In characters of up to three bytes: of one message, and of all of a session together, because they are stored in one record. */
const MESSAGE_LENGTH = 256;
const MESSAGES_LENGTH = 20_000;

/**
 * What each component is doing, in declared order: what was remembered, brought up to date by what is seen of exactly its pod. A pod that was made, that nobody
 * has seen end, and that the API server no longer lists, is gone. `listedUids` must have been listed after the record was written; undefined: not listed.
 */
export function summariseComponents(
  record: SessionRecord,
  pods: readonly PodSeen[],
  listedUids: ReadonlySet<string> | undefined,
): ComponentStatus[] {
  const length = Math.min(MESSAGE_LENGTH, Math.floor(MESSAGES_LENGTH / record.components.length));
  const byName = new Map(pods.map((pod) => [pod.pod, pod]));
  return record.components.map((component) => {
    const seen = byName.get(podName(record.name, component.name));
    if (hasEnded(component)) return component;
    if (seen?.uid !== component.podUid) {
      const gone = component.podUid !== "" && listedUids?.has(component.podUid) === false;
      return gone
        ? { ...component, state: "FAILED", message: "PodGone: the pod is gone, and nobody saw how it ended" }
        : component;
    }
    return {
      ...component,
      node: seen.node === "" ? component.node : seen.node,
      podIp: seen.podIp === "" ? component.podIp : seen.podIp,
      state: seen.deleted && seen.health !== "SUCCEEDED" ? "FAILED" : seen.health,
      message: messageOf(seen, length),
      exitCode: seen.exitCode,
    };
  });
}

/** True when a pod was made of which nothing is seen: only the API server can say whether it is still there. */
export function isAnyUnseen(record: SessionRecord, pods: readonly PodSeen[]): boolean {
  const seen = new Set(pods.map(({ uid }) => uid));
  return record.components.some(
    (component) => component.podUid !== "" && !hasEnded(component) && !seen.has(component.podUid),
  );
}

export function hasEnded(component: Pick<ComponentStatus, "state">): boolean {
  return component.state === "SUCCEEDED" || component.state === "FAILED";
}

function messageOf(pod: PodSeen, length: number): string {
  const words = [pod.reason, pod.message].filter((word) => word !== "");
  if (words.length === 0 && pod.deleted && pod.health !== "SUCCEEDED") return "the pod was deleted";
  const text = words.join(": ");
  return text.length > length ? `${text.slice(0, length - 3)}...` : text;
}
