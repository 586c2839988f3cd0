import { formatElapsed } from "@muster/faults";
import { describePrices, formatPrice } from "@muster/resources";
import { buildSection, buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import { describePoolTrouble } from "./describe-pool-trouble.ts";
import { getColour } from "./paint.ts";
import { formatCount } from "./plural.ts";
import { buildRoomColumns, roundShare } from "./room-columns.ts";
import { describeShare } from "./share.ts";
import type {
  BootingNodes,
  DemandScaling,
  ListedNode,
  MachineState,
  PoolScaling,
  PoolTrouble,
  ScalerDump,
} from "../adapters/node-messages.ts";

const NODE_HEADER = ["NAME", "POOL", "TYPE", "SPOT", "ZONE", "PHASE", "AGE", "HELD BY / BOUND TO"];

/** Standings of nodes that can be granted only in parts. The phase does not show them. */
const IN_PARTS: ReadonlySet<string> = new Set(["SHARED", "FOREIGN_USE"]);

/** The phase of nodes that the scaler did not create. */
const STATIC = "STATIC";

/** Whether a ready node without a cordon has a taint: the ledger reports it as CORDONED, and grants it only to work that tolerates the taint. */
export function isTainted({ standing, cordoned }: MachineState): boolean {
  return standing === "CORDONED" && cordoned === false;
}

function buildMachineCell(machine: ListedNode["machine"]): string {
  if (machine === undefined) return "-";
  return isTainted(machine) ? "TAINTED" : orDash(machine.standing);
}

function foreignCell(machine: ListedNode["machine"]): string {
  const { foreign } = machine ?? {};
  return foreign === undefined
    ? "-"
    : `${formatCount(foreign.pods, "pod")}, ${describeShare(roundShare(foreign.requests))}`;
}

/**
 * Builds the table of nodes; the price of all, and text that exceeds a row, follow below. The column of standings exists only if a node can be granted in
 * parts.
 */
export function buildNodeTable(nodes: readonly ListedNode[], nowMs: number, style: TableStyle): string[] {
  const isStandingShown = nodes.some(({ phase, machine }) => phase === STATIC || IN_PARTS.has(machine?.standing ?? ""));
  const room = buildRoomColumns(nodes.flatMap(({ machine }) => machine ?? []));
  const prices = describePrices(nodes.filter(({ phase }) => phase !== STATIC && phase !== "TERMINATED"));
  const isForeignShown = nodes.some(({ machine }) => machine?.foreign !== undefined);
  // An empty column of troubles is omitted where the table needs its width.
  const isTroubleShown = room.length === 0 || nodes.some((node) => describeNodeTrouble(node) !== "");
  const header = [
    ...(isStandingShown ? NODE_HEADER.toSpliced(6, 0, "STANDING") : NODE_HEADER),
    ...room.map((column) => column.header),
    ...(isForeignShown ? ["FOREIGN"] : []),
    ...(prices === undefined ? [] : ["PRICE/H"]),
    ...(isTroubleShown ? ["TROUBLE"] : []),
  ];
  const rows = nodes.map((node): Cell[] => [
    node.name,
    node.pool,
    orDash(node.instanceType ?? ""),
    node.spot === undefined ? "-" : node.spot ? "yes" : "no",
    orDash(node.zone ?? ""),
    { text: node.phase, colour: getColour(node.phase) },
    ...(isStandingShown ? [buildMachineCell(node.machine)] : []),
    node.createdAtMs === undefined ? "-" : formatElapsed(nowMs - node.createdAtMs),
    orDash(holderOf(node)),
    ...room.map(({ cellOf }) => cellOf(node.machine)),
    ...(isForeignShown ? [foreignCell(node.machine)] : []),
    ...(prices === undefined ? [] : [priceCell(node)]),
    ...(isTroubleShown ? [describeNodeTrouble(node)] : []),
  ]);
  const lines = buildTable(header, rows, style);
  const cut = nodes.flatMap((node, index) => {
    const trouble = escapeControls(describeNodeTrouble(node));
    return lines[index + 1]?.includes(trouble) === true ? [] : `${escapeControls(node.name)}: ${trouble}`;
  });
  const notes = [...(prices === undefined ? [] : [`total: ${prices}`]), ...cut];
  return notes.length === 0 ? lines : [...lines, "", ...notes];
}

function priceCell({ pricePerHourMicros }: ListedNode): string {
  return pricePerHourMicros === undefined ? "-" : formatPrice(pricePerHourMicros);
}

/** Returns the owners of the node or of its parts, otherwise the demand for which it is kept. */
function holderOf({ holder, boundTo = "", machine }: ListedNode): string {
  const [first, second] = machine?.sharedHolders ?? [];
  if (second !== undefined) return formatCount(machine?.sharedHolders.length ?? 0, "owner");
  return first?.owner ?? (holder === "" ? boundTo : holder);
}

/** Describes why the node ends, what failed, and by how much it is over-committed; empty if all is well. */
export function describeNodeTrouble({
  machine,
  ...node
}: Pick<ListedNode, "terminate" | "trouble" | "machine">): string {
  const excess = machine?.excess ?? {};
  const over = Object.keys(excess).length === 0 ? "" : describeExcess(excess, machine?.foreign?.examples ?? []);
  return [endOf(node), over].filter((part) => part !== "").join("; ");
}

function describeExcess(excess: Readonly<Record<string, number>>, pods: readonly string[]): string {
  const named = pods.length === 0 ? "" : `; pods ${pods.join(", ")}`;
  return `OVERCOMMITTED: ${describeShare(roundShare(excess))} beyond what it can allocate${named}`;
}

/** Omits the trouble if it equals the reason of the termination. */
function endOf({ terminate, trouble = "" }: Pick<ListedNode, "terminate" | "trouble">): string {
  if (terminate === undefined) return trouble;
  const ends = `ends: ${terminate.code}: ${terminate.message}`;
  return trouble === "" || ends.includes(trouble) ? ends : `${ends}; ${trouble}`;
}

export function buildScalerDump(dump: ScalerDump, nowMs: number, style: TableStyle): string[] {
  const { loops, pools, unavailable, bindings, bindingsMore, troubles, undecided } = dump;
  return [
    `leader ${orDash(escapeControls(dump.leader))}, term ${dump.term}, ${formatCount(dump.nodes, "node")}`,
    ...(undecided === "" ? [] : [`no node is created or ended yet: ${escapeControls(undecided)}`]),
    "",
    ...buildTable(LOOP_HEADER, loops.map(loopRow(nowMs)), style),
    "",
    ...(pools.length === 0
      ? [undecided === "" ? "no pool is scaled" : "the scaling of pools is not decided yet"]
      : buildTable(POOL_HEADER, pools.map(poolRow(nowMs)), style)),
    ...buildSection(UNAVAILABLE_HEADER, unavailable.map(unavailableRow(nowMs)), style),
    ...(troubles.length === 0 ? [] : ["", ...buildTroubleLines(troubles, nowMs)]),
    ...buildSection(
      BINDING_HEADER,
      bindings.map(({ demand, node }) => [demand, node]),
      style,
    ),
    ...(bindingsMore === 0 ? [] : [`and ${bindingsMore} more`]),
  ];
}

export function buildTroubleLines(troubles: readonly PoolTrouble[], nowMs: number): string[] {
  return troubles.map((trouble) => `pool ${escapeControls(trouble.pool)}: ${describePoolTrouble(trouble, nowMs)}`);
}

const LOOP_HEADER = ["LOOP", "EVERY", "ROUNDS", "FAILED", "LAST", "TOOK", "MEAN", "ERROR"];
const POOL_HEADER = ["POOL", "MAX", "STANDBY", "BOOTING", "BLOCKED"];
const BINDING_HEADER = ["DEMAND", "NODE"];
const UNAVAILABLE_HEADER = ["UNAVAILABLE", "PROVIDER", "SPOT", "WHERE", "SINCE", "AGAIN IN", "WHY"];

function loopRow(nowMs: number) {
  return (loop: ScalerDump["loops"][number]): Cell[] => [
    loop.name,
    formatElapsed(loop.intervalMs),
    String(loop.rounds),
    String(loop.failures),
    loop.lastStartedAtMs === undefined ? "never" : `${formatElapsed(nowMs - loop.lastStartedAtMs)} ago`,
    describeDuration(loop.lastDurationMs),
    describeDuration(loop.meanDurationMs),
    { text: loop.error, colour: "red" },
  ];
}

function describeDuration(ms: number): string {
  return ms < 1000 ? `${ms}ms` : formatElapsed(ms);
}

function poolRow(nowMs: number) {
  return ({ pool, max, standby, booting, blocked }: PoolScaling): Cell[] => [
    pool,
    String(max),
    String(standby),
    orDash(describeBooting(booting, nowMs)),
    { text: blocked === undefined ? "" : `${blocked.code}: ${blocked.message}`, colour: "yellow" },
  ];
}

function unavailableRow(nowMs: number) {
  return (kind: ScalerDump["unavailable"][number]): Cell[] => [
    kind.instanceType,
    kind.provider,
    kind.spot ? "yes" : "no",
    kind.place === "" ? "everywhere" : kind.place,
    `${formatElapsed(nowMs - kind.sinceMs)} ago`,
    formatElapsed(kind.untilMs - nowMs),
    kind.message,
  ];
}

/** Formats `2 large for 40.0s, 1 small (spot) for 3.0s`; empty if no node boots. */
export function describeBooting(booting: readonly BootingNodes[], nowMs: number): string {
  return booting
    .map(({ instanceType, spot, count, sinceMs }) => {
      return `${count} ${instanceType}${spot ? " (spot)" : ""} for ${formatElapsed(nowMs - sinceMs)}`;
    })
    .join(", ");
}

/** Describes in one line the scaler's steps towards the machines that work waits for. */
export function describeScaling(scaling: DemandScaling, nowMs: number): string {
  switch (scaling.state) {
    case "unknown":
      return "nodes: the node scaler knows of no request of this owner that it can meet";
    case "unanswered":
      return `nodes: the node scaler does not answer: ${escapeControls(scaling.trouble)}`;
    case "known": {
      const { code, message, troubles } = scaling;
      const state = code === "BOOTING" ? escapeControls(message) : `${code}: ${escapeControls(message)}`;
      return `nodes: ${[state, ...troubles.map((trouble) => describePoolTrouble(trouble, nowMs))].join("; ")}`;
    }
  }
}

/** A running scaler writes each pool every 30 s, so this time means three missing writes. */
const SILENT_MS = 90_000;

/** Describes how long no scaler has decided about pools that may grow, if that exceeds the limit; undefined otherwise. */
export function describeSilence(
  pools: readonly { readonly elasticMax: number; readonly elasticAtMs?: number | undefined }[],
  nowMs: number,
): string | undefined {
  const heard = pools.flatMap(({ elasticMax, elasticAtMs }) => (elasticMax > 0 ? (elasticAtMs ?? []) : []));
  const silentMs = nowMs - Math.min(...heard);
  if (heard.length === 0 || silentMs < SILENT_MS) return undefined;
  return `the node scaler last reported ${formatElapsed(silentMs)} ago; work that needs its nodes waits until it is back`;
}

function orDash(text: string): string {
  return text === "" ? "-" : text;
}
