import type { ContainerEnd, PodFact, PodTrouble } from "./snapshot.ts";

/** Describes the end of a pod for people, with the cluster's own reason and message if present: `pod train-worker-0 failed with exit code 137: OOMKilled`. */
export function describeContainerEnd(pod: PodFact, mainContainer: string): string {
  const exit = describeExit(pod.exits, mainContainer);
  const words = [pod.reason, pod.message].filter((part) => part !== "").join(": ");
  if (exit === "") return `pod ${pod.name} failed${words === "" ? " without an exit code" : `: ${words}`}`;
  return `pod ${pod.name} failed with ${exit}${words === "" ? "" : `: ${words}`}`;
}

/** Describes the end of a container that the kubelet will restart, or has restarted; empty for any other. */
export function describeLastEnd(pod: PodFact, mainContainer: string): string {
  const down = describeExit(pod.down, mainContainer);
  if (down !== "") return `pod ${pod.name} is down after ${down}`;
  const exit = describeExit(pod.earlierExits, mainContainer);
  return exit === "" ? "" : `pod ${pod.name} was restarted after ${exit}`;
}

/** Describes the exit of the main container, or else of the first other failed container; empty if none failed. */
export function describeExit(exits: readonly ContainerEnd[], mainContainer: string): string {
  const bad = exits.filter(({ code }) => code !== 0);
  const exit = bad.find(({ container }) => container === mainContainer) ?? bad[0];
  if (exit === undefined) return "";
  const of = exit.container === mainContainer ? "" : ` of container ${exit.container}`;
  return `exit code ${exit.code}${of}${exit.why === undefined ? "" : `: ${exit.why}`}`;
}

/** Describes the state of a pod for people; empty for a pod that runs or ended well. */
export function describeMember(pod: PodFact, mainContainer: string): string {
  const { reason, message, trouble } = pod;
  const down = describeExit(pod.down, mainContainer);
  const parts = [
    pod.deleting ? "being deleted" : "",
    joinReason({ reason, message }),
    describeExit(pod.exits, mainContainer),
    down === "" ? "" : `down after ${down}`,
    trouble === undefined ? "" : joinReason(trouble),
    pod.containerRestarts === 0 ? "" : `${pod.containerRestarts} restarts`,
  ];
  return parts.filter((part) => part !== "").join(", ");
}

function joinReason({ reason, message }: PodTrouble): string {
  return [reason, message].filter((part) => part !== "").join(": ");
}
