import { paint, type Colour } from "./paint.ts";

export type Cell =
  | string
  | {
      readonly text: string;
      readonly colour: Colour;
      /** Spaces before the text, as for what is below the row above it. */
      readonly indent?: number;
    };

export type TableStyle = {
  /** The maximal length of a line; undefined: no limit, because standard output is no terminal. */
  readonly columns: number | undefined;
  readonly colours: boolean;
};

/** A narrower column is of no use. */
const COLUMN_WIDTH_MIN = 4;
/** Before a text is cut below this width, a whole column is left out. */
const TEXT_WIDTH_MIN = 16;
const GAP = "  ";
/** Columns that are left out first, in this order: those that other commands show, and those that follow from the others. */
const DROPPED_FIRST = [
  "USER,SPOT,ZONE,ADDRESS,KIND,ID,AFTER,TRIES,KEPT,CAPACITY,PRIORITY,TYPE,MACHINES,TOOK,HELD,PART",
  "QUEUE,AREA,FAILURES,SUBJECT,UNUSABLE,WHY UNUSABLE,POOL,AGE,NODE,TIME,FOREIGN,HELD BY / BOUND TO",
].flatMap((names) => names.split(","));

/**
 * Lines of a table whose columns are as wide as they must be. When it is wider than allowed, long texts are cut, and end with an ellipsis; where that is not
 * enough, whole columns are left out.
 */
export function buildTable(header: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle): string[] {
  const cells = [header.map((text) => ({ text, colour: "bold" as const })), ...rows.map((row) => row.map(toCell))];
  const natural = header.map((_, index) => Math.max(...cells.map((row) => textWidth(row[index]?.text ?? ""))));
  const columns =
    style.columns === undefined ? natural.map(naturalColumn) : planColumns(header, natural, style.columns);
  return cells.map((row) => {
    const shown = columns.filter(({ index }) => index < row.length);
    const texts = shown.map(({ index, width }, place) => {
      const { text, colour } = row[index] ?? { text: "", colour: "none" };
      const fitted = fit(text, width);
      const padding = " ".repeat(Math.max(0, width - textWidth(fitted)));
      return paint(fitted, colour, style.colours) + (place === shown.length - 1 ? "" : padding);
    });
    return texts.join(GAP).trimEnd();
  });
}

/** Cells as a line that stands alone, for a list that grows. */
export function buildLine(cells: readonly Cell[], style: TableStyle): string {
  return cells
    .map(toCell)
    .filter(({ text }) => text !== "")
    .map(({ text, colour }) => paint(text, colour, style.colours))
    .join(GAP);
}

/** A table after an empty line; nothing without rows. */
export function buildSection(header: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle) {
  return rows.length === 0 ? [] : ["", ...buildTable(header, rows, style)];
}

/** Cuts a line that is longer than the terminal, so that it stays one line. */
export function fit(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  let kept = "";
  let rest = width - 1;
  for (const letter of lettersOf(text)) {
    rest -= letterWidth(letter);
    if (rest < 0) break;
    kept += letter;
  }
  return width < 1 ? "" : `${kept}…`;
}

/** Columns of a terminal that the text takes. */
export function textWidth(text: string): number {
  return ASCII.test(text) ? text.length : lettersOf(text).reduce((sum, letter) => sum + letterWidth(letter), 0);
}

/** Foreign text without control characters and those that change the direction of text; line ends become spaces. */
export function plain(text: string): string {
  return text.replaceAll(/\s+/g, " ").replaceAll(/\p{Cc}|\p{Bidi_Control}/gu, "");
}

function toCell(cell: Cell): { text: string; colour: Colour } {
  if (typeof cell === "string") return { text: plain(cell), colour: "none" };
  return { colour: cell.colour, text: " ".repeat(cell.indent ?? 0) + plain(cell.text) };
}

const ASCII = /^[\x20-\x7e]*$/;
const SEGMENTER = new Intl.Segmenter("en", { granularity: "grapheme" });
/** Letters of East Asia and pictures, which take two columns of a terminal. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f1e6}-\u{1f1ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u;
const NO_WIDTH = /^[\p{Mark}\p{Format}]*$/u;

/** With what belongs to each: an accent, the parts of a picture. */
function lettersOf(text: string): string[] {
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

/** The columns that are shown, and their widths. The first one, with the name that users type, is cut last. */
function planColumns(header: readonly string[], natural: readonly number[], maxWidth: number): Column[] {
  let columns = natural.map(naturalColumn);
  const [name] = header;
  for (const least of ["", ...DROPPED_FIRST.filter((each) => each !== name)]) {
    columns = columns.filter(({ index }) => header[index] !== least);
    const shrunk = shrink(columns, maxWidth, TEXT_WIDTH_MIN);
    if (widthOf(shrunk) <= maxWidth) return shrunk;
  }
  let narrow = shrink(columns, maxWidth, COLUMN_WIDTH_MIN);
  while (columns.length > 1 && widthOf(narrow) > maxWidth) {
    columns = columns.slice(0, -1);
    narrow = shrink(columns, maxWidth, COLUMN_WIDTH_MIN);
  }
  return widthOf(narrow) <= maxWidth ? narrow : narrow.map(({ index }) => ({ index, width: Math.max(1, maxWidth) }));
}

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, { width }) => sum + width, 0) + GAP.length * (columns.length - 1);
}

/** Takes from the widest column until the table fits, or until all are as narrow as they may be; from the first only where that is not enough. */
function shrink(columns: readonly Column[], maxWidth: number, minWidth: number): Column[] {
  const widths = columns.map(({ width }) => width);
  for (let excess = widthOf(columns) - maxWidth; excess > 0; excess -= 1) {
    const widest = Math.max(0, ...widths.slice(1));
    const at = widest > minWidth ? widths.indexOf(widest, 1) : 0;
    const width = widths[at] ?? 0;
    if (width <= minWidth || (at === 0 && minWidth > COLUMN_WIDTH_MIN)) break;
    widths[at] = width - 1;
  }
  return columns.map(({ index }, place) => ({ index, width: widths[place] ?? 0 }));
}
