import { formatElapsed } from "@muster/faults";
import { listAcceptedPools } from "@muster/resources";
import { describeScaling } from "./build-node-views.ts";
import { buildTable, fitText, escapeControls, type TableStyle } from "./build-table.ts";
import { getColour, paintText } from "./paint.ts";
import { formatCount } from "./plural.ts";
import type { DemandScaling } from "../adapters/node-messages.ts";
import { buildPartCells, buildPartHeader } from "./share.ts";
import { computeAgeMs, getWorkEnd, isFinished, getWorkPhase, type ComponentStatus, type Work } from "./work.ts";

/** States of a component that has not started. They have no line, because they may be too short to observe. */
const UNSTARTED = ["PENDING", "CREATED"];

/**
 * Builds the changes since the previous state as lines that are only appended, for logs and pipes: one for each event and each change of a component. A line
 * begins with the time since the submission, which is never earlier than in the previous line: `sinceMs` is the time of the last line.
 */
export function buildProgressLines(before: Work | undefined, session: Work, nowMs: number, sinceMs = 0): string[] {
  const end = getWorkEnd(session);
  const seen = new Map(before?.components.map((component) => [component.name, describeComponent(component)]));
  const events = session.events.slice(before?.events.length ?? 0);
  const changed = session.components
    .map((component) => ({ component, text: describeComponent(component) }))
    .filter(({ component, text }) => !UNSTARTED.includes(component.state) && seen.get(component.name) !== text);
  const lines = [
    ...events
      .filter((event) => event !== end)
      .map(({ phase, atMs, description }) => ({ atMs, text: joined(phase, description) })),
    ...changed.map(({ text }) => ({ atMs: nowMs, text })),
    ...events
      .filter((event) => event === end)
      .map(({ phase, atMs, reason, description }) => ({
        // The outcome is known before the cleanup, but reported after it.
        atMs: session.finishedAtMs ?? atMs,
        text: joined(phase, reason, description),
      })),
  ];
  let lastMs = sinceMs;
  return lines.map(({ atMs, text }) => {
    lastMs = Math.max(lastMs, atMs);
    return buildLine(session, lastMs, text);
  });
}

/** Builds the line that states why a session waits. */
export function buildWaitLine(session: Work, nowMs: number): string {
  return buildLine(session, nowMs, `waits: ${escapeControls(session.waitingBecause)}`);
}

/** Describes the scaler's work on the nodes that a session waits for, as one more line of the same form. */
export function buildScalingLine(session: Work, scaling: DemandScaling, nowMs: number): string {
  return buildLine(session, nowMs, describeScaling(scaling, nowMs));
}

/** Followed work, and what the node scaler does about it, if known. */
export type FollowedItem = Work & { readonly scaling?: DemandScaling | undefined };

/** Builds one frame of the terminal: the phases of the sessions with their times, and a line for each component. */
export function buildProgressBlock(
  sessions: readonly FollowedItem[],
  nowMs: number,
  style: TableStyle & { readonly rows: number },
): string[] {
  const whole = sessions.flatMap((session) => buildSessionBlock(session, nowMs, style));
  // Lines that have scrolled off cannot be redrawn, so the block must fit; running sessions have priority.
  if (whole.length <= style.rows) return whole;
  const open = sessions.filter((session) => !isFinished(session));
  const short = (open.length > 0 ? open : sessions).flatMap((session) => buildSessionBlock(session, nowMs, style));
  if (short.length <= style.rows) return short;
  const shown = Math.max(1, style.rows - 1);
  return [...short.slice(0, shown), `… ${formatCount(short.length - shown, "more line")}`].slice(
    0,
    Math.max(1, style.rows),
  );
}

/** Formats `QUEUE 0.2s  ACCEPT 0.0s  PROVISION 1.4s  RUN 5.1s`: each phase with its duration until its end or now. */
export function buildPhases(session: Work, nowMs: number): string {
  return session.events
    .map(({ phase, atMs }, index) => {
      const next = session.events[index + 1];
      if (next === undefined && isFinished(session)) return phase;
      return `${phase} ${formatElapsed((next?.atMs ?? nowMs) - atMs, session.resolution)}`;
    })
    .join("  ");
}

/** Builds the table of a session's components. */
export function buildComponentTable({ components }: Pick<Work, "components">, style: TableStyle): string[] {
  const header = ["COMPONENT", "KIND", "POOL", "NODE", ...buildPartHeader(components), "ADDRESS", "STATE", "MESSAGE"];
  const rows = components.map((component) => [
    component.name,
    component.kind,
    listAcceptedPools(component).join(", "),
    component.node === "" ? "-" : component.node,
    ...buildPartCells(component, components),
    component.podIp === "" ? "-" : component.podIp,
    { text: component.state, colour: getColour(component.state) },
    joined(exitText(component), component.message),
  ]);
  return buildTable(header, rows, style);
}

function buildSessionBlock(session: FollowedItem, nowMs: number, style: TableStyle): string[] {
  const phase = getWorkPhase(session);
  const width = style.columns ?? Number.POSITIVE_INFINITY;
  const age = formatElapsed(computeAgeMs(session, nowMs), session.resolution);
  const head = fitText(escapeControls(`${phase} ${session.name} ${age}`), width);
  const waits = session.waitingBecause;
  const { scaling } = session;
  return [
    paintText(phase, getColour(phase), style.colours) + head.slice(phase.length),
    paintText(fitText(`  ${buildPhases(session, nowMs)}`, width), "dim", style.colours),
    ...(waits === "" ? [] : [paintText(fitText(`  waits: ${escapeControls(waits)}`, width), "yellow", style.colours)]),
    ...(waits === "" || scaling === undefined
      ? []
      : [paintText(fitText(`  ${describeScaling(scaling, nowMs)}`, width), "yellow", style.colours)]),
    ...buildComponentTable(session, {
      ...style,
      columns: style.columns === undefined ? undefined : style.columns - 2,
    }).map((line) => `  ${line}`),
  ];
}

function buildLine(session: Work, atMs: number, text: string): string {
  return `${formatElapsed(atMs - session.createdAtMs, session.resolution).padStart(6)}  ${session.name}  ${text}`;
}

/** Omits messages before readiness, which change often. A lasting message is shown as the reason of the wait. */
function describeComponent(component: ComponentStatus): string {
  const { name, state, node, message } = component;
  return joined(name, state, node === "" ? "" : `on ${node}`, exitText(component), state === "FAILED" ? message : "");
}

function exitText({ exitCode }: ComponentStatus): string {
  return exitCode === undefined ? "" : `exit code ${exitCode}`;
}

function joined(...parts: readonly string[]): string {
  return parts
    .map(escapeControls)
    .filter((part) => part !== "")
    .join("  ");
}
