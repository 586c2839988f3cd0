import type { Reason as Explanation } from "@muster/ledger-client/explanation";
import { adviseRoll, buildRollLine, describeCounts, describeMove } from "./build-set-views.ts";
import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { formatElapsed } from "./duration.ts";
import { colourOf, paint } from "./paint.ts";
import { plural } from "./plural.ts";
import { isSettled, phaseOfSet, type ExplainedSet, type NodeTransfer, type ReplicaSet } from "./replica-set.ts";

/** Nodes that are shown one by one. */
const MAX_NODES_SHOWN = 50;
/** The farm's words for a place without a pod. */
const NO_POD = "NO_POD";
const NODE_UNUSABLE = "NODE_UNUSABLE";
/** Nodes that are only counted: there may be thousands of them. */
const NOT_OURS: ReadonlySet<string> = new Set(["NOT_SELECTED", "NOT_GRANTED"]);
/** Troubles that the places themselves explain better. */
const SEEN_IN_PLACES: ReadonlySet<string> = new Set(["TOO_FEW_NODES", "NOT_HEALTHY"]);
/** Troubles that hold up what is under way: a transfer, a rolling update, a deletion. */
const HOLDS_UP: ReadonlySet<string> = new Set([
  "POD_REFUSED",
  "WAITING_FOR_MACHINE",
  "MACHINE_REFUSED",
  "MACHINES_GONE",
  "LEDGER_AWAY",
]);

/** Why a set is in its state: the first obstacle, a stable word, and what to do. */
export function explainSet(explained: ExplainedSet, nowMs: number): Explanation {
  const { set } = explained;
  const state = explainState(explained);
  if (state === undefined) return explainPlaces(explained, nowMs) ?? explainWell(set);
  const { trouble } = set;
  if (trouble === undefined || !HOLDS_UP.has(trouble.code)) return state;
  const next = state.next === "" ? adviceFor(trouble.code, set, nowMs) : state.next;
  return { ...state, message: `${state.message}; ${trouble.message}`, next };
}

function explainState({ set, roll, ...seen }: ExplainedSet): Explanation | undefined {
  const { name, deletion, farm, disabled } = set;
  if (deletion !== undefined) {
    const pods = deletion.keepPods ? "its pods stay" : `${plural(set.replicas.length, "replica")} left`;
    return { code: "DELETING", message: `it is being deleted: ${pods}`, next: "" };
  }
  if (farm === "")
    return {
      code: "NO_FARM",
      message: "no farm owns it now, so that nothing is done about it; another one takes it over within seconds",
      next: "`muster doctor` shows the farms; one with FARM_RC_SELECTOR owns only sets whose labels match",
    };
  if (roll !== undefined)
    return {
      code: "IN_ROLL",
      message: buildRollLine(roll),
      next: `\`muster roll status ${roll.id}\` follows it, ${adviseRoll(roll)}`,
    };
  if (set.transfer !== undefined) return explainTransfer({ set, roll, ...seen }, set.transfer);
  if (disabled)
    return {
      code: "DISABLED",
      message: `it is disabled: no pod is created, replaced or removed (${describeCounts(set)})`,
      next: `\`muster enable ${name}\` enables it`,
    };
  return undefined;
}

function explainTransfer({ set, nodesKnown, nodes }: ExplainedSet, transfer: NodeTransfer): Explanation {
  const { oldNode, newNode, because, givenUpAtMs } = transfer;
  const by = new Date(givenUpAtMs).toISOString();
  const isShort = newNode === "" && set.spec.pool === "" && nodesKnown && !nodes.some(({ code }) => code === "FREE");
  const waiting = set.replicas.filter(({ node, eligible }) => !eligible && node !== oldNode).map(({ node }) => node);
  const parts = [
    `it ${describeMove(transfer)}: ${because}`,
    ...(isShort ? [`no eligible node is free (${countNodes(nodes)})`] : []),
    `the old pod goes once the new one is ready, or all is taken back at ${by}`,
    ...(waiting.length > 0 ? [`${waiting.join(", ")} ${waiting.length === 1 ? "is" : "are"} left after that`] : []),
  ];
  return { code: "TRANSFERRING", message: parts.join("; "), next: isShort ? adviseNode(set) : "" };
}

function adviseNode({ name, spec, replicas }: ReplicaSet): string {
  const which = spec.nodeSelector === "" ? "it" : spec.nodeSelector;
  return `label, uncordon or add a node for ${which}, or \`muster scale ${name} --replicas ${replicas.length - 1}\``;
}

function explainPlaces(explained: ExplainedSet, nowMs: number): Explanation | undefined {
  const { set, nodesKnown, nodes } = explained;
  const { desired, replicas, trouble } = set;
  if (!nodesKnown)
    return {
      code: "NODES_UNKNOWN",
      message: "the watcher is silent, so that nothing is concluded about nodes, and nothing is moved",
      next: "`muster doctor` checks the watcher",
    };
  if (trouble !== undefined && !SEEN_IN_PLACES.has(trouble.code))
    return { code: trouble.code, message: trouble.message, next: adviceFor(trouble.code, set, nowMs) };
  if (replicas.length < desired) {
    const missing = desired - replicas.length;
    const free = nodes.filter(({ code }) => code === "FREE").length;
    if (free >= missing) return { code: "PLACING", message: `${describeCounts(set)}; the rest follows now`, next: "" };
    return {
      code: "TOO_FEW_NODES",
      message: `${describeCounts(set)}: ${plural(missing, "node")} more would do, ${free} of them ${free === 1 ? "is" : "are"} free (${countNodes(nodes)})`,
      next: adviceFor("TOO_FEW_NODES", set, nowMs),
    };
  }
  if (replicas.length > desired)
    return { code: "REMOVING", message: `${describeCounts(set)}; what is too much is removed now`, next: "" };
  const ill = replicas.filter(({ health, eligible }) => health !== "READY" && eligible);
  const [first] = ill;
  if (first !== undefined) {
    const why = [first.health, first.reason, first.message].filter((each) => each !== "").join(": ");
    return {
      code: "NOT_HEALTHY",
      message: `${describeCounts(set)}; ${first.pod} on ${first.node} is ${why}${ill.length > 1 ? `; ${ill.length - 1} more are not ready` : ""}`,
      next: adviseIll(first),
    };
  }
  const leaving = explainLeaving(explained, nowMs);
  if (leaving !== undefined || set.healthy >= desired) return leaving;
  return { code: "RENEWING", message: `${describeCounts(set)}: pods of the earlier template are replaced`, next: "" };
}

function adviseIll({ pod, node, reason }: ReplicaSet["replicas"][number]): string {
  if (reason === NO_POD)
    return `\`kubectl get events --field-selector involvedObject.name=${pod}\` says how the one before it ended`;
  if (reason === NODE_UNUSABLE) return `\`kubectl describe node ${node}\` says more`;
  return `\`kubectl describe pod ${pod}\` and \`kubectl logs ${pod}\` say more`;
}

/** Replicas on nodes that are no longer eligible. */
function explainLeaving({ set, nodes }: ExplainedSet, nowMs: number): Explanation | undefined {
  const leaving = set.replicas.filter(({ eligible }) => !eligible).map(({ node }) => node);
  if (leaving.length === 0) return undefined;
  const named = leaving.map((node) => {
    const why = nodes.find((each) => each.node === node)?.message ?? "";
    return why === "" ? node : `${node} (${why})`;
  });
  const where = `${named.join(", ")} ${leaving.length === 1 ? "is" : "are"} no longer eligible`;
  if (set.spec.allocationStrategy === "Static")
    return {
      code: "STATIC",
      message: `${where}, and a Static set is never moved`,
      next: `\`muster transfer ${set.name} --from ${leaving[0] ?? "NODE"}\` moves it once`,
    };
  if (set.held !== undefined)
    return {
      code: "TRANSFERS_HELD",
      message: `${where}, and transfers are held by ${set.held.by}: ${set.held.because}`,
      next: `\`muster transfer ${set.name} --release\` releases them`,
    };
  const pauseMs = set.transferNotBeforeAtMs - nowMs;
  const when = pauseMs > 0 ? `in ${formatElapsed(pauseMs)}, after ${plural(set.transferFailures, "failure")}` : "next";
  return { code: "LEAVING", message: `${where}; the transfer to another node begins ${when}`, next: "" };
}

function explainWell(set: ReplicaSet): Explanation {
  return isSettled(set)
    ? { code: "READY", message: describeCounts(set), next: "" }
    : { code: "CHANGING", message: describeCounts(set), next: "" };
}

function adviceFor(code: string, set: ReplicaSet, nowMs: number): string {
  const { name, spec } = set;
  switch (code) {
    case "TOO_FEW_NODES":
      if (spec.pool !== "") return "`muster get reservations` shows the machines that it waits for";
      return `label, uncordon or add a node for ${spec.nodeSelector === "" ? "it" : spec.nodeSelector}, or \`muster scale ${name} --replicas ${set.replicas.length}\``;
    case "NO_ELIGIBLE_NODES":
      return `check nodeSelector ${spec.nodeSelector} against \`kubectl get nodes --show-labels\``;
    case "TRANSFER_FAILED": {
      if (spec.allocationStrategy === "Static")
        return `it is not tried again; \`muster audit ${name}\` shows what was tried`;
      const pauseMs = set.transferNotBeforeAtMs - nowMs;
      return `it is tried again${pauseMs > 0 ? ` in ${formatElapsed(pauseMs)}` : ""}; \`muster audit ${name}\` shows what was tried`;
    }
    case "POD_REFUSED":
      return "fix the template and `muster apply -f FILE --replace`";
    case "OVERLAP":
      return `\`muster get replica-sets\` shows the other set; give one of them other nodes, or \`muster delete ${name}\``;
    case "WAITING_FOR_MACHINE":
      return `\`muster get reservations\` shows who has the machines of pool ${spec.pool}, and \`muster nodes\` what is booting; \`muster scale ${name} --replicas ${set.replicas.length}\` is content with what it has`;
    case "MACHINE_REFUSED":
      return `\`muster get pools\` shows the pools and their sizes; name another one in spec.pool, or \`muster scale ${name} --replicas ${set.replicas.length}\``;
    case "MACHINES_GONE":
      return "`muster get reservations` shows what the ledger has; nothing is to be done if it lost them: others may get the machines, and the replicas move one by one";
    case "LEDGER_AWAY":
      return "its replicas stay where they are, and it continues once the ledger answers; `muster doctor` checks the reservation-manager";
    case "NOT_HEALTHY":
      return `\`muster get replica-set ${name}\` shows which pods are not ready, and why`;
    case "ROLL_SET_MISSING":
      return `its pods stay as they are; start the farms of the version that wrote the update, or \`muster delete ${name} --force\` gives it up with its pods`;
    default:
      return "";
  }
}

function countNodes(nodes: ExplainedSet["nodes"]): string {
  const counts = new Map<string, number>();
  for (const { code } of nodes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return counts.size === 0 ? "no nodes" : [...counts].map(([code, count]) => `${count} ${code}`).join(", ");
}

/** The explanation for people: the sentence, then each node that matters. */
export function buildSetExplanation(explained: ExplainedSet, nowMs: number, style: TableStyle): string[] {
  const { set, nodesKnown } = explained;
  const { code, message, next } = explainSet(explained, nowMs);
  const phase = phaseOfSet(set);
  const nodes = buildNodeRows(explained);
  return [
    `replica-set ${set.name} ${paint(phase, colourOf(phase), style.colours)}${code === phase ? "" : `: ${code}`}`,
    `  ${plain(message)}`,
    ...(next === "" ? [] : [`next: ${next}`]),
    `owner: ${set.farm === "" ? "no farm" : set.farm}`,
    ...(nodesKnown
      ? ["", ...(nodes.length > 0 ? buildTable(["NODE", "WHAT", "POD", "HEALTH", "WHY"], nodes, style) : ["no nodes"])]
      : []),
    ...describeOthers(explained, nodes.length),
  ];
}

function buildNodeRows({ set, nodes }: ExplainedSet): Cell[][] {
  return nodes
    .filter(({ code }) => !NOT_OURS.has(code))
    .slice(0, MAX_NODES_SHOWN)
    .map(({ node, code, message }) => {
      const replica = set.replicas.find((each) => each.node === node);
      const { pod = "-", health = "-" } = replica ?? {};
      return [node, code, pod, { text: health, colour: colourOf(health) }, message || (replica?.message ?? "")];
    });
}

function describeOthers({ set, nodes, nodesMore }: ExplainedSet, shown: number): string[] {
  const unselected = nodes.filter(({ code }) => NOT_OURS.has(code));
  const hidden = nodes.length - unselected.length - shown;
  const named = unselected.slice(0, 3).map(({ node }) => node);
  const { pool, nodeSelector } = set.spec;
  const count = unselected.length + nodesMore;
  const isNot =
    pool === ""
      ? `${count === 1 ? "does" : "do"} not match ${nodeSelector}`
      : `${count === 1 ? "is no machine" : "are no machines"} of pool ${pool} that it has`;
  return [
    ...(hidden > 0 ? [`and ${plural(hidden, "more node")}; -o json shows them`] : []),
    ...(unselected.length > 0
      ? [`${plural(count, "other node")} (${named.join(", ")}${unselected.length > 3 ? ", ..." : ""}) ${isNot}`]
      : []),
  ];
}
