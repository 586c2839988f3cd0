import { expect, it } from "vitest";
import type { UnitSeen } from "../domain/snapshot.ts";
import { makeServedJobs } from "./served-jobs.ts";

type Deps = Parameters<typeof makeServedJobs>[0];

const UNKNOWN: UnitSeen = { id: "train-u", state: "unknown" };
const GRANTED: UnitSeen = { id: "train-u", state: "granted", nodes: new Map() };

/** Returns whether the namespace and the job `train` in it are served. */
function served(
  namespace: string,
  jobNamespaces: Deps["kube"]["jobNamespaces"],
  seen: { readonly queue?: boolean; readonly units?: readonly UnitSeen[]; readonly pods?: number } = {},
) {
  const { servesNamespace, serves } = makeServedJobs({
    kube: { namespace: "default", jobNamespaces },
    queues: { isServed: () => seen.queue },
    machines: { unitsOf: (id) => (id === "train-u" ? (seen.units ?? []) : []) },
    world: {
      pods: { byIndex: (_index, id) => (id === "train-u" ? Array.from({ length: seen.pods ?? 0 }, () => ({})) : []) },
    },
  });
  return [servesNamespace(namespace), serves({ metadata: { namespace, name: "train", uid: "u" } })];
}

it.each<[title: string, seen: ReturnType<typeof served>, expected: ReturnType<typeof served>]>([
  ["in its own namespace, whatever the queues", served("default", "own", { queue: false }), [true, true]],
  ["in its own namespace, with others too", served("default", "all", { queue: false }), [true, true]],
  ["not in another one by default, even with a queue", served("team-a", "own", { queue: true }), [false, false]],
  ["in one that a queue serves", served("team-a", "all", { queue: true }), [true, true]],
  ["not in one without a queue", served("team-a", "all", { queue: false }), [false, false]],
  ["not before the queues are listed", served("team-a", "all"), [undefined, false]],
  [
    "with machines after the last queue is gone",
    served("team-a", "all", { queue: false, units: [GRANTED] }),
    [false, true],
  ],
  ["with pods after the last queue is gone", served("team-a", "all", { queue: false, pods: 1 }), [false, true]],
  ["not before the ledger is known", served("team-a", "all", { queue: false, units: [UNKNOWN] }), [false, false]],
])("runs jobs %s", (_title, seen, expected) => {
  expect(seen).toEqual(expected);
});
