import { formatDuration, formatElapsed } from "@muster/faults";
import { printAmount, roundAmount } from "@muster/resources";
import type { QueueAmount } from "../adapters/queue-messages.ts";
import type { Reservation } from "../adapters/reservation-messages.ts";
import { buildRecord } from "./build-record.ts";
import {
  buildSection,
  buildTable,
  fitText,
  escapeControls,
  computeTextWidth,
  type Cell,
  type TableStyle,
} from "./build-table.ts";
import { describeWhy } from "./build-views.ts";
import { describeQueueProblem } from "./describe-queue-problem.ts";
import { formatCount } from "./plural.ts";
import { computeAvailable, type PlacedQueue } from "./queue-tree.ts";
import { shortenResource } from "./room-columns.ts";
import { describeShare, buildMachineCell, listResources } from "./share.ts";

/** A queue, with its reservations if they were read. */
export type ShownQueue = PlacedQueue & { readonly reservations?: readonly Reservation[] };

const INDENT_WIDTH = 2;
const BAR_WIDTH = 8;
/** A larger share has no meaning, because the tree has nothing to lend. */
const MAX_SHARE_MILLIONTHS = 1_000_000_000;
const MAX_SHOWN_RESERVATIONS = 20;

/** Builds the table of trees, with one line per queue and pool if that fits. Problems follow below. */
export function buildQueueTable(queues: readonly PlacedQueue[], style: TableStyle): string[] {
  const { columns, colours } = style;
  const names = resourceNames(queues);
  const isFitting = (hasBar: boolean): boolean => {
    const lines = buildWideTable(queues, names, { hasBar, colours: false });
    return columns === undefined || lines.every((line) => computeTextWidth(line) <= columns);
  };
  const hasBar = [true, false].find(isFitting);
  const problems = queues.flatMap((queue) => {
    const problem = describeQueueProblem(queue);
    if (problem === undefined) return [];
    return [`${queue.name}: ${queue.problem}: ${problem.message}`, `  next: ${problem.next}`];
  });
  return [
    ...(hasBar === undefined ? buildBlocks(queues, names, style) : buildWideTable(queues, names, { hasBar, colours })),
    ...(problems.length === 0 ? [] : ["", ...problems]),
  ];
}

function resourceNames(queues: readonly PlacedQueue[]): readonly string[] {
  const named = queues.flatMap(({ amounts }) => amounts.map(({ resource }) => [resource, ""] as const));
  return listResources(Object.fromEntries(named));
}

/** Builds one column per resource, at its natural width. */
function buildWideTable(
  queues: readonly PlacedQueue[],
  names: readonly string[],
  { hasBar, colours }: { readonly hasBar: boolean; readonly colours: boolean },
): string[] {
  const headings = names.map((name) => shortenResource(name, names).toUpperCase());
  const rows = queues.flatMap((queue) =>
    poolRows(queue).map(({ pool, amounts }, index): Cell[] => [
      index === 0 ? nameCell(queue) : "",
      pool,
      ...(hasBar ? [barOf(amounts)] : []),
      ...names.map((name) => useText(amounts.find(({ resource }) => resource === name))),
      ...(index === 0 ? countCells(queue) : []),
    ]),
  );
  const header = ["QUEUE", "POOL", ...(hasBar ? ["USE"] : []), ...headings, ...COUNT_HEADER];
  return buildTable(header, rows, { columns: undefined, colours });
}

/** Puts the pools of each queue on lines of their own, the fullest resource first, because the end may be cut. */
function buildBlocks(queues: readonly PlacedQueue[], names: readonly string[], style: TableStyle): string[] {
  const rows = queues.map((queue) => [nameCell(queue), ...countCells(queue)]);
  const [header = "", ...lines] = buildTable(["QUEUE", ...COUNT_HEADER], rows, style);
  return [
    header,
    ...queues.flatMap((queue, index) => {
      const indent = " ".repeat((queue.depth + 2) * INDENT_WIDTH);
      const pools = poolRows(queue).filter(({ amounts }) => amounts.length > 0);
      const uses = pools.map(({ pool, amounts }) => {
        const fullestFirst = [...amounts].sort((a, b) => fullnessOf(b) - fullnessOf(a));
        const texts = fullestFirst.map((each) => `${shortenResource(each.resource, names)} ${useText(each)}`);
        return `${indent}${escapeControls(`${pool}: ${barOf(amounts)} ${texts.join(", ")}`)}`;
      });
      const { columns } = style;
      return [lines[index] ?? "", ...uses.map((line) => (columns === undefined ? line : fitText(line, columns)))];
    }),
  ];
}

const COUNT_HEADER = ["PENDING", "ADMITTED", "SHARE"];

function countCells({ pending, admitted, shareMillionths }: PlacedQueue): readonly string[] {
  return [String(pending), String(admitted), shareText(shareMillionths)];
}

function nameCell(queue: PlacedQueue): Cell {
  const colour = describeQueueProblem(queue) === undefined ? "none" : "yellow";
  return { text: queue.name, colour, indent: queue.depth * INDENT_WIDTH };
}

function poolRows({
  amounts,
}: PlacedQueue): readonly { readonly pool: string; readonly amounts: readonly QueueAmount[] }[] {
  const pools = [...new Set(amounts.map(({ pool }) => pool))];
  if (pools.length === 0) return [{ pool: "-", amounts: [] }];
  return pools.map((pool) => ({ pool, amounts: amounts.filter((each) => each.pool === pool) }));
}

/** Formats `10/8 (+2)`: the used amount, the quota, and the borrowed part of the used amount. */
function useText(amount: QueueAmount | undefined): string {
  if (amount === undefined) return "-";
  const { resource, used, quota, borrowed } = amount;
  const text =
    quota === undefined
      ? roundAmount(resource, used)
      : `${roundAmount(resource, used)}/${roundAmount(resource, quota)}`;
  return borrowed > 0 ? `${text} (+${roundAmount(resource, borrowed)})` : text;
}

/** Returns the used fraction of the quota: 1 is all. */
function fullnessOf({ used, quota }: QueueAmount): number {
  if (used === 0 || quota === undefined) return 0;
  return quota === 0 ? Number.MAX_VALUE : used / quota;
}

/** Formats a bar of the fullest resource: `#####...`, or `####++++` if half of the used amount is borrowed. */
function barOf(amounts: readonly QueueAmount[]): string {
  const limited = amounts.filter(({ quota }) => quota !== undefined);
  const [first, ...others] = limited;
  if (first === undefined) return "-";
  const { used, quota = 0 } = others.reduce((a, b) => (fullnessOf(b) > fullnessOf(a) ? b : a), first);
  if (used > quota) {
    const owned = Math.min(BAR_WIDTH - 1, Math.round((BAR_WIDTH * quota) / used));
    return "#".repeat(owned).padEnd(BAR_WIDTH, "+");
  }
  const full = used === 0 ? 0 : Math.max(1, Math.floor((BAR_WIDTH * used) / quota));
  return "#".repeat(full).padEnd(BAR_WIDTH, ".");
}

function shareText(millionths: number): string {
  if (millionths >= MAX_SHARE_MILLIONTHS) return ">999";
  return String(Number((millionths / 1_000_000).toFixed(2)));
}

/** Describes one queue completely. */
export function buildQueueDescription(queue: ShownQueue, nowMs: number, style: TableStyle): string[] {
  const { problem, stopPolicy, strategy, maxPriority, parent, children, reservations = [] } = queue;
  const found = describeQueueProblem(queue);
  const waiting = reservations.filter(({ state }) => state === "waiting");
  const holding = reservations.filter(({ state }) => state === "granted");
  return [
    ...buildTable(
      ["QUEUE", queue.name],
      [
        ["parent", parent ?? "-"],
        ...(children.length === 0 ? [] : [["queues below it", children.join(", ")]]),
        ["strategy", strategy === "" ? "-" : `${strategy}${STRATEGIES.get(strategy) ?? ""}`],
        ["stop policy", stopPolicy === "" ? "None" : stopPolicy],
        ["weight", weightText(queue)],
        ["max priority", maxPriority === undefined ? "-" : String(maxPriority)],
        ["preempts", preemptionText(queue)],
        ...(queue.minRunTimeMs === 0 ? [] : [["min run time", formatDuration(queue.minRunTimeMs)]]),
        ...(queue.readyTimeoutMs === 0 ? [] : [["ready timeout", formatDuration(queue.readyTimeoutMs)]]),
        ...(queue.pastUseHalfLifeMs === 0 ? [] : [["half-life", formatDuration(queue.pastUseHalfLifeMs)]]),
        ...(queue.permitsNonPreemptible ? [["permits", "work that is not preemptible"]] : []),
        // Only queues without queues below them serve namespaces.
        ...(children.length === 0 ? [["namespaces", queue.namespaces === "" ? "all" : (queue.namespaces ?? "-")]] : []),
        ["pending", String(queue.pending)],
        ["admitted", String(queue.admitted)],
        ["share", shareText(queue.shareMillionths)],
        ...(queue.pastShareMillionths === 0 ? [] : [["past share", shareText(queue.pastShareMillionths)]]),
        ["problem", found === undefined ? "-" : `${problem}: ${found.message}`],
      ],
      style,
    ),
    ...(found === undefined ? [] : [`next: ${found.next}`]),
    ...buildQuotaSection(queue, style),
    ...buildWaiting(waiting, nowMs, style),
    ...buildHolding(holding, nowMs, style),
  ];
}

const STRATEGIES = new Map([
  ["BestEffortFIFO", ": requests that fit may pass one that does not"],
  ["StrictFIFO", ": nothing passes the first request"],
]);

function preemptionText({ preemption }: PlacedQueue): string {
  if (preemption === undefined) return "-";
  const { reclaim, fairSharing, withinQueue, whileBorrowing } = preemption;
  const policies = [
    ...[["reclaim", reclaim] as const, ["fairSharing", fairSharing] as const, ["withinQueue", withinQueue] as const],
  ].filter(([, policy]) => policy !== "Never");
  const parts = policies.map(([name, policy]) => `${name}: ${policy}`);
  if (whileBorrowing !== undefined) {
    const { maxPriority } = whileBorrowing;
    parts.push(`whileBorrowing: ${maxPriority === undefined ? "LowerPriority" : `priority ${maxPriority} at most`}`);
  }
  return parts.length === 0 ? "-" : parts.join(", ");
}

function weightText({ weightMilli }: PlacedQueue): string {
  return String(weightMilli / 1000);
}

/** Builds the section of a queue's quotas, with the amounts that it could get now. */
export function buildQuotaSection(queue: PlacedQueue, style: TableStyle): readonly string[] {
  const hasQuota = queue.amounts.some(({ stated, quota }) => quota !== undefined && quota !== (stated?.nominal ?? 0));
  const rows = queue.amounts.map((amount): Cell[] => {
    const { pool, resource, stated, quota, used, borrowed } = amount;
    const print = (value: number | undefined): string => (value === undefined ? "-" : roundAmount(resource, value));
    const limit = (value: number | null | undefined, none: string): string =>
      stated === undefined ? "-" : typeof value === "number" ? print(value) : none;
    return [
      ...[pool, resource, print(stated?.nominal)],
      ...[limit(stated?.borrowingLimit, "no limit"), limit(stated?.lendingLimit, "all")],
      ...(hasQuota ? [print(quota)] : []),
      ...[print(used), print(borrowed), print(computeAvailable(queue, amount))],
    ];
  });
  const limits = ["NOMINAL", "MAX BORROWED", "MAX LENT", ...(hasQuota ? ["QUOTA"] : [])];
  return buildSection(["POOL", "RESOURCE", ...limits, "USED", "BORROWED", "CAN GET"], rows, style);
}

function buildWaiting(waiting: readonly Reservation[], nowMs: number, style: TableStyle): readonly string[] {
  const rows = waiting
    .slice(0, MAX_SHOWN_RESERVATIONS)
    .map((each, index) => [
      `${each.ownerKind}/${each.ownerId}`,
      String(index + 1),
      String(each.priority),
      formatElapsed(nowMs - each.createdAtMs),
      describeWhy(each),
    ]);
  return [...buildSection(["WAITS", "PLACE", "PRIORITY", "AGE", "WHY"], rows, style), ...moreLine(waiting.length)];
}

function buildHolding(holding: readonly Reservation[], nowMs: number, style: TableStyle): readonly string[] {
  const rows = holding
    .slice(0, MAX_SHOWN_RESERVATIONS)
    .map((each) => [
      `${each.ownerKind}/${each.ownerId}`,
      buildMachineCell(each.machines),
      formatElapsed(nowMs - (each.grantedAtMs ?? each.createdAtMs)),
      (each.use ?? []).map(({ pool, amounts }) => `${pool}: ${describeShare(amounts)}`).join("; ") || "-",
    ]);
  return [...buildSection(["HOLDS", "MACHINES", "SINCE", "QUOTA USED"], rows, style), ...moreLine(holding.length)];
}

function moreLine(count: number): readonly string[] {
  const more = count - MAX_SHOWN_RESERVATIONS;
  return more > 0 ? [`and ${formatCount(more, "more reservation")}; \`muster get reservations\` lists them`] : [];
}

/** Builds the stable format for programs. Amounts are quantities of Kubernetes. */
export function buildQueueRecord(queue: ShownQueue): Record<string, unknown> {
  const { name, parent, problem, strategy, stopPolicy, maxPriority, pending, admitted, reservations } = queue;
  const found = describeQueueProblem(queue);
  return {
    ...{ name, parent, children: queue.children },
    problem,
    ...(found !== undefined && { problemMessage: escapeControls(found.message) }),
    ...{ strategy, stopPolicy, weight: queue.weightMilli / 1000 },
    ...{ maxPriority, namespaces: queue.namespaces },
    ...(queue.preemption && { preemption: queue.preemption }),
    ...(queue.minRunTimeMs > 0 && { minRunTime: formatDuration(queue.minRunTimeMs) }),
    ...(queue.readyTimeoutMs > 0 && { readyTimeout: formatDuration(queue.readyTimeoutMs) }),
    ...(queue.pastUseHalfLifeMs > 0 && { pastUseHalfLife: formatDuration(queue.pastUseHalfLifeMs) }),
    ...(queue.permitsNonPreemptible && { permitNonPreemptible: true }),
    ...{ pending, admitted, share: queue.shareMillionths / 1_000_000 },
    ...(queue.pastShareMillionths > 0 && { pastShare: queue.pastShareMillionths / 1_000_000 }),
    pools: poolRows(queue)
      .filter(({ amounts }) => amounts.length > 0)
      .map(({ pool, amounts }) => ({ pool, resources: amounts.map((amount) => buildAmountRecord(queue, amount)) })),
    ...(reservations !== undefined && { reservations: reservations.map((each) => buildRecord(each)) }),
  };
}

export function buildAmountRecord(queue: PlacedQueue, amount: QueueAmount): Record<string, unknown> {
  const { resource, stated, quota, used, borrowed } = amount;
  const print = (value: number | null | undefined): string | undefined =>
    typeof value === "number" ? printAmount(resource, value) : undefined;
  return {
    resource,
    nominal: print(stated?.nominal),
    borrowingLimit: print(stated?.borrowingLimit),
    lendingLimit: print(stated?.lendingLimit),
    quota: print(quota),
    used: print(used),
    borrowed: print(borrowed),
    available: print(computeAvailable(queue, amount)),
  };
}
