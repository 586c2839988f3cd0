import { formatElapsed } from "@muster/faults";
import { formatDurationNs, formatRfc3339, type Result } from "@muster/leases";
import { buildFacts } from "./build-facts.ts";
import { buildLine, buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import type { Lease, LeaseEvent, LeaseUsers } from "../adapters/lease-messages.ts";
import { LEASE_NOUN } from "./lease-document.ts";
import { getColour, type Colour } from "./paint.ts";
import { showOrderData, showResultData } from "./sealed-view.ts";
import type { LeaseVerdict } from "./verify-lease.ts";

export type LeaseListView = { readonly style: TableStyle; readonly isOfOneUser: boolean };

/** Builds the table of leases, without a column of users if all leases have the same user. */
export function buildLeaseTable(
  leases: readonly Lease[],
  nowMs: number,
  { style, isOfOneUser }: LeaseListView,
): string[] {
  const ofUser = <Text>(text: Text): Text[] => (isOfOneUser ? [] : [text]);
  const rows = leases.map((lease): Cell[] => [
    lease.order.id,
    lease.order.type,
    phaseCell(lease),
    describeEnd(lease, nowMs),
    formatElapsed(nowMs - toMs(lease.order.createdNs)),
    ...ofUser(lease.order.user),
    describeCause(lease),
  ]);
  return buildTable(["LEASE", "TYPE", "PHASE", "ENDS", "AGE", ...ofUser("USER"), "WHY"], rows, style);
}

/** Describes one lease completely, without sealed values. Lines are never cut, so that users can copy values. */
export function buildLeaseDescription(lease: Lease, nowMs: number): string[] {
  const { order, renewal, result, run } = lease;
  const why = describeCause(lease);
  const facts: (readonly [string, string])[] = [
    [LEASE_NOUN, order.id],
    ["phase", phaseCell(lease).text],
    ...(why === "" ? [] : [["why", why] as const]),
    ["type", order.type],
    ["data", lease.orderHash === undefined ? showOrderData(order) : NOT_KEPT],
    ["ordered", `${formatRfc3339(order.createdNs)}, for ${formatDurationNs(order.durationNs)}`],
    ["ends", describeEndAt(lease, nowMs)],
    ...(renewal === undefined ? [] : [["renewed", times(renewal.sequence)] as const]),
    ["user", order.user],
    ["engine", order.engine],
    ...(lease.traceparent === "" ? [] : [["trace", lease.traceparent] as const]),
    ...(order.reference === undefined ? [] : [["instead of", order.reference] as const]),
    ...(run > 1 ? [["begun", times(run)] as const] : []),
    ...(result === undefined ? [] : [["result", `${result.state}: ${describeResult(lease, result)}`] as const]),
  ];
  return [...buildFacts(facts), "", `\`muster lease history ${order.id}\` shows what happened to it`];
}

const NOT_KEPT = "not kept, because it is over";

function describeResult({ order, orderHash }: Lease, result: Result): string {
  if (orderHash !== undefined && result.data === "") return result.message || NOT_KEPT;
  return withoutPrefix(result.message) || showResultData(order, result);
}

/** The colour of the phase shows that a crashed lease has not succeeded. */
function phaseCell({ phase, ending }: Lease): { readonly text: string; readonly colour: Colour } {
  if (ending?.cause !== "CRASHED") return { text: phase, colour: getColour(phase) };
  return { text: `${phase} (CRASHED)`, colour: getColour("FAILED") };
}

/** Removes the prefix that controllers recognize. */
export function withoutPrefix(message: string): string {
  return message.replace(/^failed to apply provision: /, "");
}

/** States when the lease ends or ended; for an early end, also when it would have ended. */
function describeEndAt(lease: Lease, nowMs: number): string {
  const { ending, endedAtNs, expiresAtNs } = lease;
  const endNs = ending?.atNs ?? endedAtNs ?? expiresAtNs;
  if (endNs >= expiresAtNs) return `${formatRfc3339(expiresAtNs)}, ${describeEnd(lease, nowMs)}`;
  return `${formatRfc3339(endNs)}, ${describeEnd(lease, nowMs)}; without that ${formatRfc3339(expiresAtNs)}`;
}

/** States the end relative to now. */
export function describeEnd({ phase, expiresAtNs }: Pick<Lease, "phase" | "expiresAtNs">, nowMs: number): string {
  if (phase === "ENDED" || phase === "FAILED") return "over";
  if (phase === "DECOMMISSIONING") return "now";
  const leftMs = toMs(expiresAtNs) - nowMs;
  if (leftMs > NEVER_MS) return "never";
  return leftMs < 0 ? "now" : `in ${formatElapsed(leftMs)}`;
}

/** The longest duration is 292 years. */
const NEVER_MS = 200 * 366 * 86_400_000;

/** Lists leases that use another one, with their times: `container 4711-2 (ends in 38m10s), 3 more`. */
export function describeUsers({ some, count }: LeaseUsers, nowMs: number): string {
  const named = some.map((each) => `${each.type} ${each.id} (ends ${describeEnd(each, nowMs)})`);
  const more = count - named.length;
  return [...named, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}

/** States in a few words why a lease differs from its order; empty if it does not. */
export function describeCause({ phase, waitingBecause, ending, result }: Lease): string {
  if (phase === "FAILED" && result !== undefined) return withoutPrefix(result.message);
  const end = ending && [ending.cause, withoutPrefix(ending.message)].filter((each) => each !== "").join(": ");
  return [end ?? "", waitingBecause].filter((each) => each !== "").join("; ");
}

/** States the phase and the reason: `lease 4711-1 is FAILED: no space`. */
export function describeState(lease: Lease): string {
  const why = describeCause(lease);
  return escapeControls(`${LEASE_NOUN} ${lease.order.id} is ${lease.phase}${why === "" ? "" : `: ${why}`}`);
}

export function buildLeaseHistory(events: readonly LeaseEvent[], style: TableStyle): string[] {
  return buildTable(
    ["TIME", "EVENT", "MESSAGE"],
    events.map(({ atNs, event, message }) => [formatRfc3339(toMillisecond(atNs)), event, message]),
    style,
  );
}

/** Formats one event of a lease as a line of its own. */
export function buildLeaseEventLine({ atNs, event, message }: LeaseEvent, style: TableStyle): string {
  return buildLine([formatRfc3339(toMillisecond(atNs)), { text: event, colour: getColour(event) }, message], style);
}

export function buildVerdictTable(verdicts: readonly (LeaseVerdict & { readonly lease: string })[], style: TableStyle) {
  const colours = { ok: "green", wrong: "red", unchecked: "yellow", gone: "yellow" } as const;
  const rows = verdicts.map(({ lease, what, verdict, by, why }): Cell[] => [
    lease,
    what,
    { text: verdict, colour: colours[verdict] },
    by,
    why,
  ]);
  return buildTable(["LEASE", "WHAT", "SIGNATURE", "BY", "WHY"], rows, style);
}

function times(count: number): string {
  return count === 1 ? "once" : `${count} times`;
}

function toMs(ns: bigint): number {
  return Number(ns / 1_000_000n);
}

/** Milliseconds are precise enough for people. */
function toMillisecond(ns: bigint): bigint {
  return ns - (ns % 1_000_000n);
}
