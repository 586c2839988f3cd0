import type { ContainerEnd, PodFact } from "./snapshot.ts";

/** For people, with the cluster's own words where it has some: `pod train-worker-0 failed with exit code 137: OOMKilled`. */
export function describeEnd(pod: PodFact, mainContainer: string): string {
  const said = describeExit(pod.exits, mainContainer);
  const words = [pod.reason, pod.message].filter((part) => part !== "").join(": ");
  if (said === "") return `pod ${pod.name} failed${words === "" ? " without an exit code" : `: ${words}`}`;
  return `pod ${pod.name} failed with ${said}${words === "" ? "" : `: ${words}`}`;
}

/** The same of a container that the kubelet is to start again, or has started again since; empty when there is none. */
export function describeLastEnd(pod: PodFact, mainContainer: string): string {
  const down = describeExit(pod.down, mainContainer);
  if (down !== "") return `pod ${pod.name} is down after ${down}`;
  const said = describeExit(pod.earlierExits, mainContainer);
  return said === "" ? "" : `pod ${pod.name} was started again after ${said}`;
}

/** Of the main container, or else of the first other one that did not end well; empty when all is well. */
export function describeExit(exits: readonly ContainerEnd[], mainContainer: string): string {
  const bad = exits.filter(({ code }) => code !== 0);
  const exit = bad.find(({ container }) => container === mainContainer) ?? bad[0];
  if (exit === undefined) return "";
  const of = exit.container === mainContainer ? "" : ` of container ${exit.container}`;
  return `exit code ${exit.code}${of}${exit.why === undefined ? "" : `: ${exit.why}`}`;
}
