import { cleanLog } from "./describe.ts";

/** A log as lines. The last line may be incomplete. */
export type LogLines = {
  readonly lines: readonly string[];
  /** Number of lines dropped from the beginning. */
  readonly dropped: number;
};

/** Maximum lines that a page keeps. */
export const MAX_LOG_LINES = 50_000;
const MAX_LINE_CHARACTERS = 4000;

export const EMPTY_LOG: LogLines = { lines: [""], dropped: 0 };

/** Appends text to the log. Drops the oldest lines if it becomes too long. */
export function appendLog({ lines, dropped }: LogLines, text: string, max: number = MAX_LOG_LINES): LogLines {
  const [first = "", ...rest] = cleanLog(text).split("\n");
  const last = (lines.at(-1) ?? "") + first;
  const all = [...lines.slice(0, -1), last, ...rest].map(shorten);
  const over = Math.max(0, all.length - max);
  return { lines: over === 0 ? all : all.slice(over), dropped: dropped + over };
}

function shorten(line: string): string {
  return line.length > MAX_LINE_CHARACTERS ? `${line.slice(0, MAX_LINE_CHARACTERS)}…` : line;
}

/** Finds the lines that contain the text in any letter case, with their numbers from 1. */
export function searchLog(
  { lines, dropped }: LogLines,
  text: string,
): readonly { readonly number: number; readonly line: string }[] {
  const wanted = text.toLowerCase();
  const numbered = lines.map((line, index) => ({ number: dropped + index + 1, line }));
  // Text after the last line end counts as a line only if the text is not empty.
  const shown = numbered.at(-1)?.line === "" ? numbered.slice(0, -1) : numbered;
  return wanted === "" ? shown : shown.filter(({ line }) => line.toLowerCase().includes(wanted));
}
