import { formatElapsed } from "@muster/faults";
import type { ReservationExplanation } from "../adapters/reservation-messages.ts";
import { buildSection, type Cell, type TableStyle } from "./build-table.ts";
import { formatCount } from "./plural.ts";

const MAX_NAMED = 5;

type Order = Pick<
  ReservationExplanation,
  "requestsAhead" | "requestsAheadMore" | "preempted" | "preemptedMore" | "preemption"
>;
type Ahead = Order["requestsAhead"][number];

/** Lists the requests that go first, the numbers that decide this, and the work that leaves or would have to leave. */
export function buildOrderLines(order: Order, nowMs: number, style: TableStyle): readonly string[] {
  const { requestsAhead, requestsAheadMore } = order;
  const rows = requestsAhead.map((each): Cell[] => [
    each.owner,
    each.queue === "" ? "-" : each.queue,
    String(each.priority),
    formatElapsed(nowMs - each.createdAtMs),
    describeRule(each),
  ]);
  return [
    ...buildPreemptionLines(order, nowMs),
    ...buildSection(["GOES FIRST", "QUEUE", "PRIORITY", "AGE", "BECAUSE"], rows, style),
    ...(requestsAheadMore > 0 ? [`and ${formatCount(requestsAheadMore, "more request")}`] : []),
  ];
}

function describeRule({ rule, compared, comparedWith }: Ahead): string {
  if (rule === "PRIORITY") return "higher priority";
  if (rule === "AGE") return "older";
  if (rule === "WEIGHT") return "the queue of this request has weight 0 and would borrow";
  if (compared === undefined || comparedWith === undefined) return rule;
  if (rule === "QUOTA")
    return `${compared.queue} ${describeLevel(compared.level)}, ${comparedWith.queue} ${describeLevel(comparedWith.level)}`;
  if (rule === "SHARE")
    return `share of ${compared.queue} ${describeShare(compared)}, of ${comparedWith.queue} ${describeShare(comparedWith)}`;
  return rule;
}

function describeLevel(level: number): string {
  return level === 0 ? "owns enough" : `borrows from ${formatCount(level, "level")} above`;
}

function describeShare({ share, shareDecimal, pastShareMillionths }: NonNullable<Ahead["compared"]>): string {
  if (shareDecimal === undefined) return "infinite";
  const past = pastShareMillionths === 0 ? "" : `, ${pastShareMillionths / 1_000_000} of it by past use`;
  return `${share.endsWith("/1") ? share.slice(0, -2) : `${share} (${shareDecimal})`}${past}`;
}

function buildPreemptionLines(order: Order, nowMs: number): readonly string[] {
  const { preempted, preemptedMore, preemption } = order;
  const leaving = describeVictims(preempted, preemptedMore);
  const victims = describeVictims(preemption?.victims ?? [], preemption?.victimsMore ?? 0);
  const { againAtMs, limit = "" } = preemption ?? {};
  return [
    ...(leaving === "" ? [] : [`preemption: ${leaving} must leave for it`]),
    ...(victims === "" ? [] : [`preemption: ${victims} would have to leave for it`]),
    ...(preemption !== undefined && leaving === "" && victims === ""
      ? ["preemption: no work that its queue may preempt is enough now"]
      : []),
    ...(againAtMs === undefined || againAtMs <= nowMs
      ? []
      : [`preemption: more work may leave in ${formatElapsed(againAtMs - nowMs)}, when its minRunTime is over`]),
    ...(limit === "" ? [] : [`preemption: the limit ${limit} of the ledger is reached`]),
  ];
}

/** `more` counts unlisted victims. A ledger of an earlier version states no reasons. */
function describeVictims(listed: Order["preempted"], more: number): string {
  const named = listed.slice(0, MAX_NAMED).map(({ owner, reason }) => (reason === "" ? owner : `${owner} (${reason})`));
  const others = listed.length - named.length + more;
  return `${named.join(", ")}${others === 0 ? "" : ` and ${others} more`}`;
}
