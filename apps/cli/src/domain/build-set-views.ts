import { formatDuration, formatElapsed } from "@muster/faults";
import { buildRecord, formatIsoTime } from "./build-record.ts";
import { buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import { getColour } from "./paint.ts";
import { formatCount } from "./plural.ts";
import { getSetPhase, SET_NOUN, UNREADABLE } from "./replica-set.ts";
import type { UnreadableSet, ReplicaSet, Replica, RolloutRecord, SetAudit } from "../adapters/farm-messages.ts";

const REPLICAS = ["NODE", "POD", "HEALTH", "WHY"] as const;

export function buildSetTable(
  sets: readonly ReplicaSet[],
  unreadable: readonly UnreadableSet[],
  nowMs: number,
  style: TableStyle,
): string[] {
  const rows = sets.map((set): Cell[] => {
    const phase = getSetPhase(set);
    return [
      set.name,
      { text: phase, colour: getColour(phase) },
      ...[set.desired, set.replicas.length, set.healthy, set.eligibleNodes].map(String),
      formatElapsed(nowMs - set.createdAtMs),
      describeDifference(set),
    ];
  });
  const nothing = ["-", "-", "-", "-", "-"] as const;
  const unknown = unreadable.map(({ name, because }): Cell[] => [
    name,
    { text: UNREADABLE, colour: getColour("FAILED") },
    ...nothing,
    because,
  ]);
  rows.push(...unknown);
  return buildTable(["NAME", "PHASE", "WANTED", "PLACED", "READY", "ELIGIBLE", "AGE", "WHY"], rows, style);
}

/** States in a few words why a set differs from its spec; empty if it does not. */
function describeDifference({ roll, transfer, trouble, held, farm }: ReplicaSet): string {
  if (farm === "") return "no farm owns it";
  if (roll !== "") return `in rolling update ${roll}`;
  if (transfer !== undefined) return describeMove(transfer);
  if (trouble !== undefined) return `${trouble.code}: ${trouble.message}`;
  return held === undefined ? "" : `transfers are held by ${held.by}`;
}

export function describeMove({ oldNode, newNode }: { readonly oldNode: string; readonly newNode: string }): string {
  return newNode === "" ? `leaves ${oldNode}, and needs another node` : `leaves ${oldNode} for ${newNode}`;
}

/** Describes one set completely, for people. */
export function buildSetDescription(set: ReplicaSet, style: TableStyle): string[] {
  const { spec, transfer, held, trouble, deletion } = set;
  const rows: (readonly [string, string])[] = [
    ["uid", set.uid],
    ["phase", getSetPhase(set)],
    ["created", formatIsoTime(set.createdAtMs) ?? ""],
    ["replicas", describeCounts(set)],
    ["pod id", spec.podId],
    ["nodes", describeNodes(set)],
    ["strategy", spec.daemon ? "daemon: a pod on each eligible node" : spec.allocationStrategy],
    ["owned by", set.farm === "" ? "no farm" : set.farm],
    ...(set.roll === "" ? [] : [["rolling update", set.roll] as const]),
    ...(transfer === undefined ? [] : [["transfer", `${describeMove(transfer)}: ${transfer.because}`] as const]),
    ...(held === undefined ? [] : [["transfers held", `by ${held.by}: ${held.because}`] as const]),
    ...(trouble === undefined ? [] : [["trouble", `${trouble.code}: ${trouble.message}`] as const]),
    ...(deletion === undefined ? [] : [["deletion", deletion.keepPods ? "the pods stay" : "with its pods"] as const]),
  ];
  return [
    ...buildTable(["REPLICA-SET", escapeControls(set.name)], rows, style),
    "",
    ...buildReplicaTable(set.replicas, style),
    "",
    `\`muster audit ${set.name}\` lists its changes`,
  ];
}

export function describeCounts({ desired, replicas, healthy }: ReplicaSet): string {
  return `${desired} wanted, ${replicas.length} placed, ${healthy} ready`;
}

function describeNodes({ spec, eligibleNodes }: ReplicaSet): string {
  const which =
    spec.pool !== "" ? `machines of pool ${spec.pool}` : spec.nodeSelector === "" ? "all" : spec.nodeSelector;
  return `${which}; ${eligibleNodes} eligible`;
}

function buildReplicaTable(replicas: readonly Replica[], style: TableStyle): string[] {
  if (replicas.length === 0) return ["no replicas"];
  return buildTable(
    REPLICAS,
    replicas.map(({ node, pod, health, eligible, reason, message }): Cell[] => [
      node,
      pod,
      { text: health, colour: getColour(health) },
      [eligible ? "" : "its node is no longer eligible", reason, message].filter((each) => each !== "").join(": "),
    ]),
    style,
  );
}

/** Builds the stable format for `-o json` and `-o yaml`. The spec keeps its names, because it contains the user's template. */
export function buildSetRecord(set: ReplicaSet): Record<string, unknown> {
  const { spec, ...rest } = set;
  return { ...buildRecord({ kind: SET_NOUN, phase: getSetPhase(set), ...rest }), spec };
}

export function describeSetState(set: ReplicaSet): string {
  return `${SET_NOUN} ${set.name} is ${getSetPhase(set)}: ${describeCounts(set)}`;
}

export function buildRollTable(rolls: readonly RolloutRecord[], nowMs: number, style: TableStyle): string[] {
  const rows = rolls.map((roll): Cell[] => [
    roll.id,
    { text: roll.phase, colour: getColour(roll.phase) },
    `${roll.oldSet} -> ${roll.newSet}`,
    `${roll.oldHealthy}/${roll.oldDesired}`,
    `${roll.newHealthy}/${roll.target}`,
    String(roll.minimum),
    formatElapsed(nowMs - roll.createdAtMs),
    whyRollWaits(roll),
  ]);
  return buildTable(["NAME", "PHASE", "SETS", "OLD", "NEW", "MINIMUM", "AGE", "WHY"], rows, style);
}

function whyRollWaits({ trouble, waitingBecause }: RolloutRecord): string {
  return trouble === undefined ? waitingBecause : `${trouble.code}: ${trouble.message}`;
}

/** Describes the progress of a roll in one line. */
export function buildRollLine(roll: RolloutRecord): string {
  const { id, phase, oldSet, newSet, newHealthy, newCurrent, target, oldHealthy, oldCurrent, minimum } = roll;
  const counts = `${newSet} has ${newCurrent} of ${target}, ${newHealthy} ready; ${oldSet} has ${oldCurrent}, ${oldHealthy} ready`;
  const why = whyRollWaits(roll);
  return `roll ${id} ${phase}: ${counts}; at least ${minimum} stay ready${why === "" ? "" : ` (${why})`}`;
}

/** Advises how to reverse or resume a roll; for one that is being undone, how to finish it with too few ready pods. */
export function adviseRoll({ id, undone, phase }: Pick<RolloutRecord, "id" | "undone" | "phase">): string {
  const other = undone % 2 === 1 ? "redo" : "undo";
  if (phase === "PAUSED") return `\`muster roll resume ${id}\` resumes it, \`muster roll ${other} ${id}\` reverses it`;
  return undone % 2 === 1
    ? `\`muster roll undo ${id} --minimum N\` reverses it with a lower minimum`
    : `\`muster roll undo ${id}\` reverses it`;
}

/** Describes the parameters of a roll in one line. */
export function describeRoll(roll: RolloutRecord): string {
  const { oldSet, newSet, target, minimum, leaveOld, delayMs } = roll;
  const pace = delayMs === 0 ? "" : `, ${formatDuration(delayMs)} between two steps`;
  const end = leaveOld ? `${oldSet} stays, with what is left` : `${oldSet} goes at the end`;
  return `${oldSet} -> ${newSet}: ${formatCount(target, "replica")}, at least ${minimum} ready at all times${pace}; ${end}`;
}

export function buildAuditTable(audits: readonly SetAudit[], style: TableStyle): string[] {
  return buildTable(
    ["TIME", "EVENT", "DETAILS"],
    audits.map(({ atMs, event, details }) => [formatIsoTime(atMs) ?? "", event, describeDetails(details)]),
    style,
  );
}

function describeDetails(details: SetAudit["details"]): string {
  return Object.entries(details)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name}=${Array.isArray(value) ? value.join(",") : String(value)}`)
    .join(" ");
}
