import { formatElapsed } from "@muster/faults";
import { buildTable, escapeControls, type TableStyle } from "./build-table.ts";
import { getColour, paintText } from "./paint.ts";
import { parseOrText } from "./session-document.ts";
import { computeAgeMs, getWorkEnd, getWorkPhase, type Work } from "./work.ts";

/** Builds the summary of a finished session: outcome, reason, warnings, and the result as a table. */
export function buildSummary(session: Work, nowMs: number, style: TableStyle): string[] {
  const end = getWorkEnd(session);
  const phase = getWorkPhase(session);
  const outcome = paintText(phase, getColour(phase), style.colours);
  const words = [end?.reason ?? "", session.outcome === "success" ? "" : escapeControls(end?.description ?? "")].filter(
    (word) => word !== "",
  );
  const why = words.length === 0 ? "" : `: ${words.join(": ")}`;
  return [
    `${session.kind} ${session.name} ${outcome} after ${formatElapsed(computeAgeMs(session, nowMs), session.resolution)}${why}`,
    ...session.warnings.map(
      ({ code, message }) => `${paintText("warning", "yellow", style.colours)}: ${code}: ${escapeControls(message)}`,
    ),
    ...(session.resultJson === undefined ? [] : ["", ...buildResultTable(session.resultJson, style)]),
  ];
}

/** Builds the table of the driver's result: one row per value, named by its path, such as `latencyMs.p99`. */
export function buildResultTable(resultJson: string, style: TableStyle): string[] {
  return buildTable(["RESULT", "VALUE"], flatten("", parseOrText(resultJson)), style);
}

/** Limits the rows of one result; `-o json` prints all. */
const MAX_ROWS = 100;

function flatten(name: string, value: unknown): string[][] {
  if (typeof value !== "object" || value === null) return [[name, scalarText(value)]];
  if (Array.isArray(value)) return [[name, JSON.stringify(value)]];
  const rows = Object.entries(value).flatMap(([key, item]) => flatten(name === "" ? key : `${name}.${key}`, item));
  return rows.length <= MAX_ROWS ? rows : [...rows.slice(0, MAX_ROWS), ["…", `${rows.length - MAX_ROWS} more`]];
}

function scalarText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
