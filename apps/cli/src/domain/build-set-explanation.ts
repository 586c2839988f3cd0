import { buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import { getColour, paintText } from "./paint.ts";
import { formatCount } from "./plural.ts";
import type { ExplainedSet } from "../adapters/farm-messages.ts";

/** Limits the nodes with a line of their own. */
const MAX_NODES_SHOWN = 50;
/** States of nodes that are only counted, because thousands may have them. */
const NOT_OURS: ReadonlySet<string> = new Set(["NOT_SELECTED", "NOT_GRANTED"]);

/** Builds the explanation for people: a sentence, then each node that matters. */
export function buildSetExplanation(explained: ExplainedSet, style: TableStyle): string[] {
  const { set, phase, reason, nodesKnown } = explained;
  const { code, message, next } = reason;
  const nodes = buildNodeRows(explained);
  return [
    `replica-set ${set.name} ${paintText(phase, getColour(phase), style.colours)}${code === phase ? "" : `: ${code}`}`,
    `  ${escapeControls(message)}`,
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
      return [node, code, pod, { text: health, colour: getColour(health) }, message || (replica?.message ?? "")];
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
    ...(hidden > 0 ? [`and ${formatCount(hidden, "more node")}; -o json shows them`] : []),
    ...(unselected.length > 0
      ? [`${formatCount(count, "other node")} (${named.join(", ")}${unselected.length > 3 ? ", ..." : ""}) ${isNot}`]
      : []),
  ];
}
