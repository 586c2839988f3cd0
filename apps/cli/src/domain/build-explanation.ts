import type { ExplainedReservation } from "../adapters/explanation-messages.ts";
import { formatElapsed } from "@muster/faults";
import { parseAmount, roundAmount } from "@muster/resources";
import { adviseWait, buildReason, type StateReason as Explanation } from "@muster/ledger-client/explanation";
import { adviseOnQueueWait, buildQueueWaitLines, buildQueueWaitRecord, type QueueWait } from "./build-queue-wait.ts";
import { buildRecord } from "./build-record.ts";
import { describeScaling, describeSilence } from "./build-node-views.ts";
import { buildSection, buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import type { ObservedValue } from "./check.ts";
import { buildOrderLines } from "./build-order-lines.ts";
import { describePreemption } from "./build-views.ts";
import { getColour, paintText } from "./paint.ts";
import { formatCount } from "./plural.ts";
import type { PoolExplanation, ReservationExplanation } from "../adapters/reservation-messages.ts";
import type { DemandScaling } from "../adapters/node-messages.ts";
import {
  buildCountCell,
  countMachines,
  describeShare,
  buildPartCells,
  buildPartHeader,
  listResources,
  type Share,
} from "./share.ts";

/** Builds the explanation for people: a sentence, then the owners of each pool that the item waits for. */
export function buildExplanation(
  explained: ExplainedReservation,
  nowMs: number,
  style: TableStyle,
  queue?: SeenQueueWait,
): string[] {
  const { kind, name, phase, sinceMs, isOver, reason } = explained;
  // Whole seconds come from the API server, which keeps no fractions.
  const resolution = sinceMs % 1000 === 0 ? "seconds" : "exact";
  // Deleted work has no phase.
  const state =
    phase === ""
      ? ""
      : ` ${paintText(phase, getColour(phase), style.colours)} ${isOver ? "since" : "for"} ${formatElapsed(nowMs - sinceMs, resolution)}`;
  return [`${kind} ${name}${state}: ${reason.code}`, ...buildReasons(explained, nowMs, style, queue)];
}

/** Builds the explanation of a lease without times, which its history shows. Omits a reason with the same name as the phase. */
export function buildLeaseExplanation(explained: ExplainedReservation, nowMs: number, style: TableStyle): string[] {
  const { kind, name, phase, reason } = explained;
  const code = reason.code === phase ? "" : `: ${reason.code}`;
  return [`${kind} ${name} ${phase}${code}`, ...buildReasons(explained, nowMs, style)];
}

function buildReasons(
  explained: ExplainedReservation,
  nowMs: number,
  style: TableStyle,
  queue?: SeenQueueWait,
): string[] {
  const { more, reservation, scaling } = explained;
  const reason = withQueueAdvice(explained.reason, queue);
  return [
    `  ${escapeControls(reason.message)}`,
    ...scalingLines(scaling, reservation?.pools ?? [], nowMs),
    ...nextLine(reason),
    ...more.flatMap((each) => [`${each.code}: ${escapeControls(each.message)}`, ...nextLine(each)]),
    ...queueLines(queue, nowMs, style),
    ...(reservation === undefined ? [] : buildReservationPart(reservation, nowMs, style)),
  ];
}

/** The queue that a reservation waits for; undefined if no queue keeps it waiting. */
type SeenQueueWait = ObservedValue<QueueWait> | undefined;

/** Replaces the advice with the advice on the state of the queue, which is more precise. */
function withQueueAdvice(reason: Explanation, queue: SeenQueueWait): Explanation {
  if (queue === undefined || "trouble" in queue || queue.value.code !== reason.code) return reason;
  return { ...reason, next: adviseOnQueueWait(queue.value) };
}

function queueLines(queue: SeenQueueWait, nowMs: number, style: TableStyle): readonly string[] {
  if (queue === undefined) return [];
  if ("trouble" in queue) return ["", `its queue cannot be read: ${queue.trouble}`];
  return buildQueueWaitLines(queue.value, nowMs, style);
}

function queueRecord(queue: SeenQueueWait): unknown {
  if (queue === undefined) return undefined;
  return "trouble" in queue ? { trouble: queue.trouble } : buildQueueWaitRecord(queue.value);
}

function nextLine({ next }: Explanation): readonly string[] {
  return next === "" ? [] : [`next: ${escapeControls(next)}`];
}

/** Builds the explanation for programs. */
export function buildExplanationRecord(
  explained: ExplainedReservation,
  queue?: SeenQueueWait,
): Record<string, unknown> {
  const { kind, name, phase, reason, more, reservation, scaling } = explained;
  return buildRecord({
    [kind]: name,
    ...(phase !== "" && { phase }),
    ...withQueueAdvice(reason, queue),
    ...(more.length > 0 && { more }),
    reservation,
    scaling,
    ...(queue !== undefined && { queue: queueRecord(queue) }),
  });
}

function scalingLines(
  scaling: DemandScaling | undefined,
  pools: readonly PoolExplanation[],
  nowMs: number,
): readonly string[] {
  if (scaling === undefined) return [];
  const silence = describeSilence(pools, nowMs);
  return [describeScaling(scaling, nowMs), ...(silence === undefined ? [] : [`nodes: ${silence}`])];
}

/** Builds the explanation of an owner for which only the reservation is known. */
export function buildOwnerExplanation(
  explained: ReservationExplanation,
  scaling: DemandScaling | undefined,
  nowMs: number,
  style: TableStyle,
  queue?: SeenQueueWait,
): string[] {
  const { code, message, next } = explainOwner(explained, queue);
  const { ownerKind, ownerId, grantedAtMs, createdAtMs, machines } = explained.reservation;
  const state = paintText(explained.reservation.state, getColour(explained.reservation.state), style.colours);
  const rows = machines.map((each) => [each.component, each.pool, each.node, ...buildPartCells(each, machines)]);
  return [
    `${ownerKind}/${ownerId} ${state} for ${formatElapsed(nowMs - (grantedAtMs ?? createdAtMs))}: ${code}`,
    `  ${message}`,
    ...scalingLines(scaling, explained.pools, nowMs),
    ...(next === "" ? [] : [`next: ${next}`]),
    ...buildSection(["COMPONENT", "POOL", "NODE", ...buildPartHeader(machines)], rows, style),
    ...queueLines(queue, nowMs, style),
    ...buildReservationPart(explained, nowMs, style),
  ];
}

/** Builds the explanation of an owner for programs. */
export function buildOwnerRecord(
  owner: string,
  explained: ReservationExplanation,
  scaling: DemandScaling | undefined,
  queue?: SeenQueueWait,
): Record<string, unknown> {
  return buildRecord({
    owner,
    ...explainOwner(explained, queue),
    reservation: explained,
    scaling,
    ...(queue !== undefined && { queue: queueRecord(queue) }),
  });
}

/** Explains the state of a reservation: GRANTED, or the ledger's code for its wait. */
export function explainOwner(explained: ReservationExplanation, queue?: SeenQueueWait): Explanation {
  const { code, message, reservation } = explained;
  const { preemption } = reservation;
  if (code === "" && preemption !== undefined) return buildReason("PREEMPTED", `it ${describePreemption(preemption)}`);
  if (code === "") return buildReason("GRANTED", `it holds ${countMachines(reservation.machines)}`);
  return withQueueAdvice({ code, message: escapeControls(message), next: adviseWait(explained) }, queue);
}

function buildReservationPart(reservation: ReservationExplanation, nowMs: number, style: TableStyle): string[] {
  const { pools, place, hold, concurrency } = reservation;
  if (reservation.code === "") return [];
  const elastic = pools.some(({ elasticMax }) => elasticMax > 0);
  const header = ["POOL", "NEEDED", "FREE", "KEPT", "CAPACITY", "HELD", "UNUSABLE", ...(elastic ? ["MAX"] : [])];
  const rows = pools.map((pool) => [
    poolText(pool),
    buildCountCell(pool.requested, pool.requested - countWhole(pool)),
    ...[pool.available, pool.kept, pool.capacity, pool.held, pool.unusable].map(String),
    ...(elastic ? [pool.elasticMax === 0 ? "-" : String(pool.elasticMax)] : []),
  ]);
  const users: readonly Cell[][] = pools.flatMap((pool) => buildUsers(pool, nowMs));
  const ahead = place.byPriority.map(({ priority, requests }) => `${requests} of priority ${priority}`).join(", ");
  return [
    "",
    ...buildTable(header, rows, style),
    ...buildPartSections(pools, style),
    ...buildSection(["POOL", "USED BY", "MACHINES", "SINCE", "HOW"], users, style),
    "",
    `queue: ${formatCount(place.ahead, "request")} ahead${ahead === "" ? "" : ` (${ahead})`}`,
    ...buildOrderLines(reservation, nowMs, style),
    ...(hold === undefined
      ? []
      : [
          hold.own
            ? `hold: machines that come free are kept for this ${reservation.reservation.ownerKind}`
            : `hold: machines that come free are kept for ${hold.owner}, which has waited for ${formatElapsed(nowMs - hold.waitingSinceMs)}`,
        ]),
    ...(concurrency === undefined
      ? []
      : [`limit: ${concurrency.granted} of ${concurrency.limit} running: ${listed(concurrency.holders)}`]),
  ];
}

function countWhole({ requested, parts, partsMore }: PoolExplanation): number {
  return partsMore > 0 ? 0 : requested - parts.reduce((sum, each) => sum + each.requested, 0);
}

/** Lists the requested parts and what they lack, then the free amounts of the nodes that can be granted. */
function buildPartSections(pools: readonly PoolExplanation[], style: TableStyle): readonly string[] {
  const parts = pools.flatMap(({ parts: all, partsMore, ...pool }) => [
    ...all.map(({ part, requested, fitting, shortage }): Cell[] => {
      const { node = "", resources = [] } = shortage ?? {};
      const short = resources.map((each) => `${each.resource}: ${each.free} of ${each.requested}`).join(", ");
      const cells = [poolText(pool), describeShare(part), String(requested), String(fitting)];
      return [...cells, { text: short === "" ? "-" : short, colour: "yellow" }, node === "" ? "-" : node];
    }),
    ...(partsMore > 0 ? [[poolText(pool), `and ${partsMore} more sizes`]] : []),
  ]);
  const amounts = pools.flatMap(({ amounts: { free, allocatable } = { free: {}, allocatable: {} }, ...pool }) =>
    listResources(allocatable).map((name) => [
      poolText(pool),
      name,
      roundedText(name, free),
      roundedText(name, allocatable),
    ]),
  );
  return [
    ...buildSection(["POOL", "PART", "NEEDED", "FIT", "SHORT", "BEST NODE"], parts, style),
    ...buildSection(["POOL", "RESOURCE", "FREE", "TOTAL"], amounts, style),
  ];
}

/** Names the pool, and the selector of its nodes if not all can be granted. */
function poolText({ pool, nodes }: Pick<PoolExplanation, "pool" | "nodes">): string {
  return nodes === undefined ? pool : `${pool} (${nodes})`;
}

function roundedText(resource: string, share: Share): string {
  return roundAmount(resource, parseAmount(resource, share[resource] ?? "0") ?? 0);
}

function buildUsers(pool: PoolExplanation, nowMs: number): Cell[][] {
  const holders = pool.holders.map(({ owner, machines, parts, sinceMs }): Cell[] => [
    pool.pool,
    owner,
    buildCountCell(machines, parts),
    formatElapsed(nowMs - sinceMs),
    "holds",
  ]);
  const broken = pool.unusableNodes.map(({ node, reason, occupant }): Cell[] => [
    pool.pool,
    occupant === "" ? "-" : occupant,
    "1",
    "-",
    { text: `${reason} ${node}`, colour: "yellow" },
  ]);
  const more = [
    ...(pool.holdersMore > 0 ? [[pool.pool, `and ${formatCount(pool.holdersMore, "more owner")}`, "", "", ""]] : []),
    ...(pool.unusableMore > 0 ? [[pool.pool, `and ${formatCount(pool.unusableMore, "more node")}`, "", "", ""]] : []),
  ];
  return [...holders, ...broken, ...more];
}

function listed(holders: readonly { readonly owner: string }[]): string {
  return holders.map(({ owner }) => owner).join(", ");
}
