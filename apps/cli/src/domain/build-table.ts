import { paintText, type Colour } from "./paint.ts";

export type Cell =
  | string
  | {
      readonly text: string;
      readonly colour: Colour;
      /** Spaces before the text, such as for items below the previous row. */
      readonly indent?: number;
    };

export type TableStyle = {
  /** The maximum length of a line; undefined if standard output is no terminal, and lines are never cut. */
  readonly columns: number | undefined;
  readonly colours: boolean;
};

/** Minimum width of a column; narrower columns are unreadable. */
const MIN_COLUMN_WIDTH = 4;
/** Minimum width of a cut text; below it, a whole column is dropped first. */
const MIN_TEXT_WIDTH = 16;
const GAP = "  ";
/** Columns that are dropped first, in this order: columns that other commands show, and columns whose content other columns determine. */
const DROPPED_FIRST = [
  "USER,SPOT,ZONE,ADDRESS,KIND,ID,AFTER,TRIES,KEPT,CAPACITY,PRIORITY,TYPE,MACHINES,TOOK,HELD,PART",
  "QUEUE,AREA,FAILURES,SUBJECT,UNUSABLE,WHY UNUSABLE,POOL,AGE,NODE,TIME,FOREIGN,HELD BY / BOUND TO",
].flatMap((names) => names.split(","));

/**
 * Builds the lines of a table with the narrowest columns that fit the cells. If the table exceeds the allowed width, it cuts long texts with an ellipsis, and
 * then drops whole columns.
 */
export function buildTable(header: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle): string[] {
  const cells = [header.map((text) => ({ text, colour: "bold" as const })), ...rows.map((row) => row.map(toCell))];
  const natural = header.map((_, index) => Math.max(...cells.map((row) => computeTextWidth(row[index]?.text ?? ""))));
  const columns =
    style.columns === undefined ? natural.map(naturalColumn) : planColumns(header, natural, style.columns);
  return cells.map((row) => {
    const shown = columns.filter(({ index }) => index < row.length);
    const texts = shown.map(({ index, width }, place) => {
      const { text, colour } = row[index] ?? { text: "", colour: "none" };
      const fitted = fitText(text, width);
      const padding = " ".repeat(Math.max(0, width - computeTextWidth(fitted)));
      return paintText(fitted, colour, style.colours) + (place === shown.length - 1 ? "" : padding);
    });
    return texts.join(GAP).trimEnd();
  });
}

/** Joins cells into a line of its own, for a growing list. */
export function buildLine(cells: readonly Cell[], style: TableStyle): string {
  return cells
    .map(toCell)
    .filter(({ text }) => text !== "")
    .map(({ text, colour }) => paintText(text, colour, style.colours))
    .join(GAP);
}

/** Builds a table after an empty line; returns no line without rows. */
export function buildSection(header: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle) {
  return rows.length === 0 ? [] : ["", ...buildTable(header, rows, style)];
}

/** Cuts a line that is longer than the terminal, so that it stays one line. */
export function fitText(text: string, width: number): string {
  if (computeTextWidth(text) <= width) return text;
  let kept = "";
  let rest = width - 1;
  for (const letter of splitGraphemes(text)) {
    rest -= letterWidth(letter);
    if (rest < 0) break;
    kept += letter;
  }
  return width < 1 ? "" : `${kept}…`;
}

/** Counts the terminal columns of a text. */
export function computeTextWidth(text: string): number {
  return ASCII.test(text) ? text.length : splitGraphemes(text).reduce((sum, letter) => sum + letterWidth(letter), 0);
}

/** Makes foreign text safe to print: removes control characters and changes of text direction, and replaces line ends with spaces. */
export function escapeControls(text: string): string {
  return text.replaceAll(/\s+/g, " ").replaceAll(/\p{Cc}|\p{Bidi_Control}/gu, "");
}

function toCell(cell: Cell): { text: string; colour: Colour } {
  if (typeof cell === "string") return { text: escapeControls(cell), colour: "none" };
  return { colour: cell.colour, text: " ".repeat(cell.indent ?? 0) + escapeControls(cell.text) };
}

const ASCII = /^[\x20-\x7e]*$/;
const SEGMENTER = new Intl.Segmenter("en", { granularity: "grapheme" });
/** Characters of East Asia and pictographs, which take two columns of a terminal. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f1e6}-\u{1f1ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u;
const NO_WIDTH = /^[\p{Mark}\p{Format}]*$/u;

/** Splits text into graphemes, so that an accent stays with its letter and the parts of an emoji stay together. */
function splitGraphemes(text: string): string[] {
  return Array.from(SEGMENTER.segment(text), ({ segment }) => segment);
}

function letterWidth(letter: string): number {
  if (NO_WIDTH.test(letter)) return 0;
  return WIDE.test(letter) ? 2 : 1;
}

type Column = { readonly index: number; readonly width: number };

function naturalColumn(width: number, index: number): Column {
  return { index, width };
}

/** Plans the shown columns and their widths. The first column, with the name that users type, is cut last. */
function planColumns(header: readonly string[], natural: readonly number[], maxWidth: number): Column[] {
  let columns = natural.map(naturalColumn);
  const [name] = header;
  for (const least of ["", ...DROPPED_FIRST.filter((each) => each !== name)]) {
    columns = columns.filter(({ index }) => header[index] !== least);
    const shrunk = shrink(columns, maxWidth, MIN_TEXT_WIDTH);
    if (widthOf(shrunk) <= maxWidth) return shrunk;
  }
  let narrow = shrink(columns, maxWidth, MIN_COLUMN_WIDTH);
  while (columns.length > 1 && widthOf(narrow) > maxWidth) {
    columns = columns.slice(0, -1);
    narrow = shrink(columns, maxWidth, MIN_COLUMN_WIDTH);
  }
  return widthOf(narrow) <= maxWidth ? narrow : narrow.map(({ index }) => ({ index, width: Math.max(1, maxWidth) }));
}

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, { width }) => sum + width, 0) + GAP.length * (columns.length - 1);
}

/** Narrows the widest column until the table fits, or all columns have their minimum width; narrows the first column only after the others. */
function shrink(columns: readonly Column[], maxWidth: number, minWidth: number): Column[] {
  const widths = columns.map(({ width }) => width);
  for (let excess = widthOf(columns) - maxWidth; excess > 0; excess -= 1) {
    const widest = Math.max(0, ...widths.slice(1));
    const at = widest > minWidth ? widths.indexOf(widest, 1) : 0;
    const width = widths[at] ?? 0;
    if (width <= minWidth || (at === 0 && minWidth > MIN_COLUMN_WIDTH)) break;
    widths[at] = width - 1;
  }
  return columns.map(({ index }, place) => ({ index, width: widths[place] ?? 0 }));
}
