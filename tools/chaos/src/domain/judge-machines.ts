import type { Finding } from "./finding.ts";
import { groupNodesByWork, type RunObservations, type PodSeen } from "./observed.ts";

/** Checks that no pod runs twice and no machine has two owners, by the ledger's log and by the pods on each machine. */
export function judgeMachines(observed: RunObservations): Finding[] {
  return [
    ...judgeTwins(observed),
    ...judgeLedger(observed),
    ...judgePlaces(observed),
    ...judgeNeighbours(observed.pods),
  ];
}

/** Pods of an executor that had lost its session. They were never confirmed, so they were never placed. */
export function listUnconfirmedTwins(pods: readonly PodSeen[]): PodSeen[] {
  return [...Map.groupBy(pods, ({ name }) => name).values()].flatMap((made) =>
    made.length === 1 ? [] : made.filter((pod) => !mayRun(pod)),
  );
}

function mayRun({ confirmed, boundPlace }: PodSeen): boolean {
  return confirmed || boundPlace !== undefined;
}

/** A session may replace a pod that never started if its machine was off, and a pod that found no room for its part. */
function judgeTwins({ pods, outages, ledger }: RunObservations): Finding[] {
  const off = new Set(outages.map(({ node }) => node));
  const nodes = groupNodesByWork(ledger);
  const mayReplace = ({ work, states, isShared, boundPlace }: PodSeen): boolean => {
    if (states.some((state) => state === "Running" || state === "Succeeded")) return false;
    const isCrowdedOut = isShared === true && boundPlace === undefined;
    return isCrowdedOut || [...(nodes.get(work) ?? [])].some((node) => off.has(node));
  };
  const candidates = pods.filter((pod) => pod.kind === "session" && mayRun(pod) && !mayReplace(pod));
  return [...Map.groupBy(candidates, ({ name }) => name)].flatMap(([name, made]) =>
    made.length === 1
      ? []
      : [
          {
            work: made[0]?.work,
            rule: "no pod of a session is confirmed twice",
            expected: `one ${name}`,
            found: made.map(({ uid, firstSeenMs }) => `${uid} at ${new Date(firstSeenMs).toISOString()}`).join(", "),
          },
        ],
  );
}

type Holder = { readonly reservation: string; readonly work: string };

/** Replays the log: the owner of a machine is its only holder until the reservation ends. */
function judgeLedger({ ledger }: RunObservations): Finding[] {
  const holders = new Map<string, Holder>();
  const sharers = new Map<string, readonly Holder[]>();
  const findings: Finding[] = [];
  for (const entry of ledger) {
    if (entry.kind === "ended") {
      for (const [node, { reservation }] of holders) if (reservation === entry.reservation) holders.delete(node);
      for (const [node, all] of sharers)
        sharers.set(
          node,
          all.filter(({ reservation }) => reservation !== entry.reservation),
        );
      continue;
    }
    const { reservation, work, nodes, parts = [] } = entry;
    const shared = new Set(parts.map(({ node }) => node));
    for (const node of nodes) {
      const holder = holders.get(node) ?? (shared.has(node) ? undefined : sharers.get(node)?.[0]);
      if (holder !== undefined) {
        findings.push({
          work,
          rule: "no machine has two owners in the ledger",
          expected: `${node} is held by ${holder.work} alone`,
          found: `it was granted to ${work} as well`,
        });
      }
      if (shared.has(node)) sharers.set(node, [...(sharers.get(node) ?? []), { reservation, work }]);
      else holders.set(node, { reservation, work });
    }
  }
  return findings;
}

function judgePlaces({ pods, ledger }: RunObservations): Finding[] {
  const granted = groupNodesByWork(ledger);
  return pods
    .filter(({ work, node }) => node !== "" && granted.get(work)?.has(node) !== true)
    .map(({ name, work, node }) => ({
      work,
      rule: "a pod runs only on a machine that its work was granted",
      expected: [...(granted.get(work) ?? [])].join(", "),
      found: `${name} on ${node}`,
    }));
}

function judgeNeighbours(pods: readonly PodSeen[]): Finding[] {
  const bound = pods.filter(({ boundPlace }) => boundPlace !== undefined);
  return [...Map.groupBy(bound, ({ node }) => node)].flatMap(([node, onNode]) => {
    const inOrder = onNode.toSorted((a, b) => (a.boundPlace ?? 0) - (b.boundPlace ?? 0));
    return inOrder.flatMap((pod, index) => {
      const before = inOrder.findLast(
        (each, at) =>
          at < index &&
          !(each.isShared === true && pod.isShared === true) &&
          (each.endPlace ?? Infinity) >= (pod.boundPlace ?? 0),
      );
      if (before === undefined) return [];
      return [
        {
          work: pod.work,
          rule: "no machine runs pods of two owners concurrently",
          expected: `${before.name} (${before.uid}) has ended before the next pod is placed on ${node}`,
          found: `${pod.name} (${pod.uid}) was placed there while it ran`,
        },
      ];
    });
  });
}
