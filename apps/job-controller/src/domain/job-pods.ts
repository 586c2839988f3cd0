import type { PodFact, Snapshot } from "./snapshot.ts";

/** All pods of the job. */
export function listPods({ replicas, unknownTypes: untyped, unreadable }: Snapshot): PodFact[] {
  return [
    ...replicas.flatMap(({ slots, surplus }) => [
      ...slots.filter((pod) => pod !== undefined),
      ...surplus.map(({ pod }) => pod),
    ]),
    ...untyped,
    ...unreadable,
  ];
}

export function isActive({ phase, deleting }: PodFact): boolean {
  return !deleting && phase !== "Succeeded" && phase !== "Failed";
}

/** Whether the containers of the pod may still run: while the pod exists and has not ended, whatever the state of its node. */
export function canRun({ phase }: PodFact): boolean {
  return phase !== "Succeeded" && phase !== "Failed";
}
