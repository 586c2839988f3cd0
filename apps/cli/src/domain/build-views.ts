import { formatElapsed } from "@muster/faults";
import { buildComponentTable, buildPhases } from "./build-progress.ts";
import { buildRecord, formatIsoTime } from "./build-record.ts";
import { describeBooting, buildTroubleLines } from "./build-node-views.ts";
import { buildSummary } from "./build-result.ts";
import { buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import { getColour } from "./paint.ts";
import type { Pool, Preemption, QuotaShortage, Reservation } from "../adapters/reservation-messages.ts";
import type { PoolScaling, PoolTrouble } from "../adapters/node-messages.ts";
import { parseOrText } from "./session-document.ts";
import { buildRoomColumns } from "./room-columns.ts";
import { buildCountCell, buildMachineCell } from "./share.ts";
import { computeAgeMs, getWorkEnd, isFinished, getWorkPhase, type Work } from "./work.ts";

/** Builds the table of all work of one kind. */
export function buildWorkTable(all: readonly Work[], nowMs: number, style: TableStyle): string[] {
  const rows = all.map((work): Cell[] => {
    const phase = getWorkPhase(work);
    return [
      work.name,
      { text: phase, colour: getColour(phase) },
      ...Object.values(work.columns).map(String),
      formatElapsed(nowMs - work.createdAtMs, work.resolution),
      formatElapsed(computeAgeMs(work, nowMs), work.resolution),
      isFinished(work) ? describeEnd(work) : work.waitingBecause,
    ];
  });
  const columns = Object.keys(all[0]?.columns ?? {}).map((column) => column.toUpperCase());
  return buildTable(["NAME", "PHASE", ...columns, "AGE", "TOOK", "WHY"], rows, style);
}

function describeEnd(work: Work): string {
  const { reason = "", description = "" } = getWorkEnd(work) ?? {};
  return reason === "" || description === "" ? reason : `${reason}: ${description}`;
}

/** A pool; if it may grow, with its scaling, or why that is unknown. */
export type ShownPool = Pool & {
  /** Counts machines that the ledger reports as CORDONED only because of a taint. Undefined if unknown. */
  readonly tainted?: number | undefined;
  readonly scaling:
    | (Partial<PoolScaling> & {
        /** Why the scaler does not answer. */
        readonly trouble: string | undefined;
        readonly troubles: readonly PoolTrouble[];
      })
    | undefined;
};

/** The reasons why a pool gets no nodes stand below the table. */
export function buildPoolTable(pools: readonly ShownPool[], nowMs: number, style: TableStyle): string[] {
  const elastic = pools.some(({ scaling }) => scaling !== undefined);
  const isSharedShown = pools.some(({ shared }) => shared > 0);
  const room = buildRoomColumns(pools);
  const rows = pools.map((pool) => [
    pool.name,
    ...[pool.available, pool.capacity, pool.held].map(String),
    ...(isSharedShown ? [String(pool.shared)] : []),
    ...[pool.unusable, pool.waiting].map(String),
    ...room.map(({ cellOf }) => cellOf(pool)),
    ...(elastic ? growthOf(pool, nowMs) : []),
    describeUnusable(pool),
  ]);
  const header = [
    ...["POOL", "AVAILABLE", "CAPACITY", "HELD", ...(isSharedShown ? ["SHARED"] : []), "UNUSABLE", "WAITING"],
    ...room.map((column) => column.header),
  ];
  const troubles = buildTroubleLines(
    pools.flatMap(({ scaling }) => scaling?.troubles ?? []),
    nowMs,
  );
  return [
    ...buildTable([...header, ...(elastic ? ["MAX", "BOOTING"] : []), "WHY UNUSABLE"], rows, style),
    ...(troubles.length === 0 ? [] : ["", ...troubles]),
  ];
}

function describeUnusable({ unusableByReason, tainted = 0 }: ShownPool): string {
  return unusableByReason
    .flatMap(({ reason, count }) => {
      if (reason !== "CORDONED") return [{ reason, count }];
      const byTaint = Math.min(count, tainted);
      return [
        { reason, count: count - byTaint },
        { reason: "TAINTED", count: byTaint },
      ].filter((one) => one.count > 0);
    })
    .map(({ reason, count }) => `${count} ${reason}`)
    .join(", ");
}

/** Returns the maximum size of the pool, and the booting nodes or the code for nodes that cannot be created. */
function growthOf({ elasticMax, scaling }: ShownPool, nowMs: number): readonly [string, string] {
  if (scaling === undefined) return ["-", "-"];
  const { trouble, booting = [], blocked } = scaling;
  if (trouble !== undefined) return [String(elasticMax), "?"];
  const parts = [describeBooting(booting, nowMs), blocked?.code ?? ""].filter((part) => part !== "");
  return [String(elasticMax), parts.length === 0 ? "-" : parts.join("; ")];
}

export function buildReservationTable(
  reservations: readonly Reservation[],
  nowMs: number,
  style: TableStyle,
): string[] {
  const hasQueues = reservations.some(({ queue }) => queue !== undefined);
  const rows = reservations.map((reservation): Cell[] => [
    reservation.id,
    `${reservation.ownerKind}/${reservation.ownerId}`,
    ...(hasQueues ? [reservation.queue ?? "-"] : []),
    { text: reservation.state, colour: getColour(reservation.state) },
    buildMachineCell(reservation.needs),
    String(reservation.priority),
    formatElapsed(nowMs - reservation.createdAtMs),
    describeWhy(reservation),
  ]);
  const header = ["ID", "OWNER", ...(hasQueues ? ["QUEUE"] : []), "STATE", "MACHINES", "PRIORITY", "AGE", "WHERE"];
  return buildTable(header, rows, style);
}

/** Describes one item of work completely, for people. */
export function buildDescription(work: Work, nowMs: number, style: TableStyle): string[] {
  const fields = buildTable(
    [work.kind.toUpperCase(), escapeControls(work.name)],
    [
      ["uid", work.uid],
      ["submitted", formatIsoTime(work.createdAtMs) ?? ""],
      ...work.facts,
      ["cancel requested", work.cancelRequested ? "yes" : "no"],
      ["waits", work.waitingBecause === "" ? "-" : work.waitingBecause],
      ["trace", work.traceparent === "" ? "-" : work.traceparent],
    ],
    style,
  );
  const events = work.events.map((event): Cell[] => [
    formatIsoTime(event.atMs) ?? "",
    formatElapsed(event.atMs - work.createdAtMs, work.resolution),
    { text: event.phase, colour: getColour(event.phase) },
    event.reason,
    event.description,
  ]);
  return [
    ...fields,
    "",
    ...buildTable(["TIME", "AFTER", "EVENT", "REASON", "DESCRIPTION"], events, style),
    "",
    ...buildComponentTable(work, style),
    "",
    ...(isFinished(work) ? buildSummary(work, nowMs, style) : [buildPhases(work, nowMs)]),
  ];
}

/** Builds the stable format for `-o json` and `-o yaml`: times in ISO 8601, durations as in documents, scenario and result as data. */
export function buildWorkRecord(work: Work): Record<string, unknown> {
  return {
    kind: work.kind,
    name: work.name,
    uid: work.uid,
    revision: work.revision,
    phase: getWorkPhase(work),
    ...work.columns,
    createdAt: formatIsoTime(work.createdAtMs),
    finishedAt: formatIsoTime(work.finishedAtMs),
    cancelRequested: work.cancelRequested,
    waitingBecause: work.waitingBecause,
    result: work.resultJson === undefined ? undefined : parseOrText(work.resultJson),
    warnings: work.warnings,
    events: work.events.map(({ phase, atMs, description, reason }) =>
      buildRecord({ phase, atMs, reason, description }),
    ),
    components: work.components,
    spec: work.spec,
    traceparent: work.traceparent,
  };
}

/** States the nodes of a reservation and for whom it must leave them, or why it waits. */
export function describeWhy({ because, machines, preemption }: Reservation): string {
  if (because === undefined) {
    const nodes = [...new Set(machines.map(({ node }) => node))].join(", ");
    return preemption === undefined ? nodes : `${nodes}; ${describePreemption(preemption)}`;
  }
  const { code, pool, requested, parts, available, ahead, quota } = because;
  const free = parts > 0 ? `${available} fit` : `${available} free`;
  const machineNumbers = pool === "" ? "" : ` ${pool}: ${buildCountCell(requested, parts)} needed, ${free}`;
  const numbers = quota === undefined ? machineNumbers : ` ${quotaText(quota)}`;
  return `${code}${numbers}${ahead > 0 ? `; ${ahead} ahead` : ""}`;
}

/** Formats `must leave for job/urgent of queue team-b by 2026-01-01T00:00:30.000Z (RECLAIM)`. */
export function describePreemption({ beneficiary, queue, reason, deadlineMs, accepted }: Preemption): string {
  const leaves = accepted ? "leaves" : "must leave";
  return `${leaves} for ${beneficiary} of queue ${queue} by ${new Date(deadlineMs).toISOString()} (${reason})`;
}

/** Formats `h100: 4 nvidia.com/gpu needed, 1 available`. */
function quotaText({ pool, resource, requested, available }: QuotaShortage): string {
  return `${pool}: ${requested} ${resource} needed, ${available} available`;
}
