import { formatDurationNs, formatRfc3339, type Result } from "@muster/leases";
import { buildFacts } from "./build-facts.ts";
import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { formatElapsed } from "./duration.ts";
import type { Lease, LeaseEvent, LeaseUsers } from "./lease.ts";
import { LEASE_NOUN } from "./lease-document.ts";
import { colourOf, paint, type Colour } from "./paint.ts";
import { showOrderData, showResultData } from "./sealed-view.ts";
import type { Verdict } from "./verify-lease.ts";

/** Of one user's leases it is not said of each whose it is. */
export function buildLeaseTable(
  leases: readonly Lease[],
  nowMs: number,
  { style, isOfOneUser }: { readonly style: TableStyle; readonly isOfOneUser: boolean },
): string[] {
  const ofUser = <Text>(text: Text): Text[] => (isOfOneUser ? [] : [text]);
  const rows = leases.map((lease): Cell[] => [
    lease.order.id,
    lease.order.type,
    phaseCell(lease),
    describeEnd(lease, nowMs),
    formatElapsed(nowMs - toMs(lease.order.createdNs)),
    ...ofUser(lease.order.user),
    whyOf(lease),
  ]);
  return buildTable(["LEASE", "TYPE", "PHASE", "ENDS", "AGE", ...ofUser("USER"), "WHY"], rows, style);
}

/** All that is known of one, for people, but what is sealed. Nothing is cut: it is there to be copied. */
export function buildLeaseDescription(lease: Lease, nowMs: number): string[] {
  const { order, renewal, result, run } = lease;
  const why = whyOf(lease);
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
    ...(result === undefined ? [] : [["result", `${result.state}: ${toldOf(lease, result)}`] as const]),
  ];
  return [...buildFacts(facts), "", `\`muster lease history ${order.id}\` shows what happened to it`];
}

const NOT_KEPT = "not kept, because it is over";

function toldOf({ order, orderHash }: Lease, result: Result): string {
  if (orderHash !== undefined && result.data === "") return result.message || NOT_KEPT;
  return withoutPrefix(result.message) || showResultData(order, result);
}

/** What crashed is over, too, and no success: whoever reads phases alone sees that. */
function phaseCell({ phase, ending }: Lease): { readonly text: string; readonly colour: Colour } {
  if (ending?.cause !== "CRASHED") return { text: phase, colour: colourOf(phase) };
  return { text: `${phase} (CRASHED)`, colour: colourOf("FAILED") };
}

/** The original begins so, and controllers may know it by that; people read what follows. */
export function withoutPrefix(message: string): string {
  return message.replace(/^failed to apply provision: /, "");
}

/** One that ends before its time tells when that was, and not the time that it no longer has. */
function describeEndAt(lease: Lease, nowMs: number): string {
  const { ending, endedAtNs, expiresAtNs } = lease;
  const endNs = ending?.atNs ?? endedAtNs ?? expiresAtNs;
  if (endNs >= expiresAtNs) return `${formatRfc3339(expiresAtNs)}, ${describeEnd(lease, nowMs)}`;
  return `${formatRfc3339(endNs)}, ${describeEnd(lease, nowMs)}; without that ${formatRfc3339(expiresAtNs)}`;
}

/** When it is over, seen from now; of one that is over, that it is. */
export function describeEnd({ phase, expiresAtNs }: Pick<Lease, "phase" | "expiresAtNs">, nowMs: number): string {
  if (phase === "ENDED" || phase === "FAILED") return "over";
  if (phase === "DECOMMISSIONING") return "now";
  const leftMs = toMs(expiresAtNs) - nowMs;
  if (leftMs > NEVER_MS) return "never";
  return leftMs < 0 ? "now" : `in ${formatElapsed(leftMs)}`;
}

/** The longest duration is 292 years. */
const NEVER_MS = 200 * 366 * 86_400_000;

/** Leases that live in another one, with their times: `container 4711-2 (ends in 38m10s), 3 more`. */
export function describeUsers({ some, count }: LeaseUsers, nowMs: number): string {
  const named = some.map((each) => `${each.type} ${each.id} (ends ${describeEnd(each, nowMs)})`);
  const more = count - named.length;
  return [...named, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}

/** Why it is not as it was ordered, in a few words; empty when it is. */
export function whyOf({ phase, waitingBecause, ending, result }: Lease): string {
  if (phase === "FAILED" && result !== undefined) return withoutPrefix(result.message);
  const end = ending && [ending.cause, withoutPrefix(ending.message)].filter((each) => each !== "").join(": ");
  return [end ?? "", waitingBecause].filter((each) => each !== "").join("; ");
}

/** Where it is, and why: `lease 4711-1 is FAILED: no space`. */
export function describeState(lease: Lease): string {
  const why = whyOf(lease);
  return plain(`${LEASE_NOUN} ${lease.order.id} is ${lease.phase}${why === "" ? "" : `: ${why}`}`);
}

export function buildLeaseHistory(events: readonly LeaseEvent[], style: TableStyle): string[] {
  return buildTable(
    ["TIME", "EVENT", "MESSAGE"],
    events.map(({ atNs, event, message }) => [formatRfc3339(toMillisecond(atNs)), event, message]),
    style,
  );
}

/** One of them as a line of its own. */
export function buildLeaseEventLine({ atNs, event, message }: LeaseEvent, { colours }: TableStyle): string {
  return [formatRfc3339(toMillisecond(atNs)), paint(plain(event), colourOf(event), colours), plain(message)]
    .filter((text) => text !== "")
    .join("  ");
}

export function buildVerdictTable(verdicts: readonly (Verdict & { readonly lease: string })[], style: TableStyle) {
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

/** People read no further. */
function toMillisecond(ns: bigint): bigint {
  return ns - (ns % 1_000_000n);
}
