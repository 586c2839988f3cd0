import { sumUse, type Amounts } from "@muster/resources";
import type { Finding } from "./finding.ts";
import type { LedgerFact, RunObservations, RoomSeen } from "./observed.ts";

/** Checks that bound pods and granted parts fit into their nodes, and that no node with a resident was granted as a whole. */
export function judgeRoom({ room, ledger }: Pick<RunObservations, "room" | "ledger">): Finding[] {
  if (room === undefined) return [];
  return [
    ...[...room.exceeded].map(([node, found]) => ({
      work: undefined,
      rule: "bound pods never request more than their node has",
      expected: `room on ${node}`,
      found,
    })),
    ...judgeGrants(ledger, room),
  ];
}

type Part = { readonly reservation: string; readonly use: Amounts };

function judgeGrants(ledger: readonly LedgerFact[], { allocatable, residents }: RoomSeen): Finding[] {
  const parts = new Map<string, Part[]>();
  const findings: Finding[] = [];
  for (const entry of ledger) {
    if (entry.kind === "ended") {
      for (const [node, held] of parts)
        parts.set(
          node,
          held.filter(({ reservation }) => reservation !== entry.reservation),
        );
      continue;
    }
    const { atMs, reservation, work, nodes } = entry;
    const shared = entry.parts ?? [];
    for (const { node, requests } of shared)
      parts.set(node, [...(parts.get(node) ?? []), { reservation, use: sumUse(requests) }]);
    for (const node of new Set(shared.map((part) => part.node))) {
      const amounts = allocatable.get(node);
      const found =
        amounts &&
        findExcess(
          amounts,
          (parts.get(node) ?? []).map(({ use }) => use),
        );
      if (found !== undefined)
        findings.push({ work, rule: "granted parts fit into their node", expected: `room on ${node}`, found });
    }
    const isPart = new Set(shared.map((part) => part.node));
    for (const node of nodes) {
      if (isPart.has(node)) continue;
      const resident = residents.find((each) => each.node === node && atMs < (each.untilMs ?? Infinity));
      if (resident === undefined) continue;
      const rule = "no machine with foreign use is granted as a whole";
      findings.push({ work, rule, expected: `parts of ${node} while it runs ${resident.name}`, found: "all of it" });
    }
  }
  return findings;
}

/** The first resource that is used beyond the amount of the node, with both amounts; undefined: all uses fit. */
export function findExcess(allocatable: Amounts, uses: readonly Amounts[]): string | undefined {
  for (const [resource, amount] of allocatable) {
    const used = uses.reduce((sum, use) => sum + (use.get(resource) ?? 0), 0);
    if (used > amount) return `${used} ${resource} of ${amount}`;
  }
  const missing = uses.flatMap((use) => [...use]).find(([resource, used]) => used > 0 && !allocatable.has(resource));
  return missing && `${missing[1]} ${missing[0]} of 0`;
}
