import type { Finding } from "./judge-run.ts";
import { nodesBySession, type Observed, type PodSeen } from "./observed.ts";

/** No pod runs twice, no machine with two owners: by the ledger's log, and by the pods' lives on each machine. */
export function judgeMachines(observed: Observed): Finding[] {
  return [
    ...judgeTwins(observed.pods),
    ...judgeLedger(observed),
    ...judgePlaces(observed),
    ...judgeNeighbours(observed.pods),
  ];
}

/** Made by an executor that had lost the session by then: nobody confirmed it, so it was placed nowhere. */
export function unconfirmedTwins(pods: readonly PodSeen[]): PodSeen[] {
  return [...Map.groupBy(pods, ({ name }) => name).values()].flatMap((made) =>
    made.length === 1 ? [] : made.filter((pod) => !mayRun(pod)),
  );
}

function mayRun({ confirmed, boundPlace }: PodSeen): boolean {
  return confirmed || boundPlace !== undefined;
}

function judgeTwins(pods: readonly PodSeen[]): Finding[] {
  return [...Map.groupBy(pods.filter(mayRun), ({ name }) => name)].flatMap(([name, made]) =>
    made.length === 1
      ? []
      : [
          {
            session: made[0]?.session,
            rule: "no pod is let run twice",
            expected: `one ${name}`,
            found: made.map(({ uid, firstSeenMs }) => `${uid} at ${new Date(firstSeenMs).toISOString()}`).join(", "),
          },
        ],
  );
}

/** Replays the log: whoever is granted a machine is its only holder until its reservation ends. */
function judgeLedger({ ledger }: Observed): Finding[] {
  const holders = new Map<string, { readonly reservation: string; readonly session: string }>();
  const findings: Finding[] = [];
  for (const entry of ledger) {
    if (entry.fact === "ended") {
      for (const [node, { reservation }] of holders) if (reservation === entry.reservation) holders.delete(node);
      continue;
    }
    const { reservation, session, nodes } = entry;
    for (const node of nodes) {
      const holder = holders.get(node);
      if (holder !== undefined) {
        findings.push({
          session,
          rule: "no machine has two owners in the ledger",
          expected: `${node} is held by ${holder.session} alone`,
          found: `it was granted to ${session} as well`,
        });
      }
      holders.set(node, { reservation, session });
    }
  }
  return findings;
}

function judgePlaces({ pods, ledger }: Observed): Finding[] {
  const granted = nodesBySession(ledger);
  return pods
    .filter(({ session, node }) => node !== "" && granted.get(session)?.has(node) !== true)
    .map(({ name, session, node }) => ({
      session,
      rule: "a pod runs only on a machine that its session was granted",
      expected: [...(granted.get(session) ?? [])].join(", "),
      found: `${name} on ${node}`,
    }));
}

function judgeNeighbours(pods: readonly PodSeen[]): Finding[] {
  const bound = pods.filter(({ boundPlace }) => boundPlace !== undefined);
  return [...Map.groupBy(bound, ({ node }) => node)].flatMap(([node, onNode]) => {
    const inOrder = onNode.toSorted((a, b) => (a.boundPlace ?? 0) - (b.boundPlace ?? 0));
    return inOrder.slice(1).flatMap((pod, index) => {
      const before = inOrder[index];
      if (before === undefined || (before.endPlace ?? Infinity) < (pod.boundPlace ?? 0)) return [];
      return [
        {
          session: pod.session,
          rule: "no machine carries pods of two owners at once",
          expected: `${before.name} (${before.uid}) has ended before the next pod is put on ${node}`,
          found: `${pod.name} (${pod.uid}) was put there while it ran`,
        },
      ];
    });
  });
}
