import { paint, type Colour } from "./paint.ts";

export type Cell = string | { readonly text: string; readonly colour: Colour };

export type TableStyle = {
  /** Longest line that is allowed; undefined: as long as it takes, because nobody sees it on a terminal. */
  readonly columns: number | undefined;
  readonly colours: boolean;
};

/** Narrower than this a column says nothing any more. */
const COLUMN_WIDTH_MIN = 4;
/** A text that is cut says something down to this width; before it is cut shorter, a whole column is left out. */
const TEXT_WIDTH_MIN = 16;
const GAP = "  ";
/** The columns that a reader misses least, in this order: what can be looked up, and what follows from the others. */
const MISSED_LEAST = [
  ...[
    "USER",
    "ADDRESS",
    "KIND",
    "ID",
    "AFTER",
    "TRIES",
    "KEPT",
    "CAPACITY",
    "PRIORITY",
    "TYPE",
    "MACHINES",
    "TOOK",
    "HELD",
  ],
  ...["AREA", "FAILURES", "SUBJECT", "UNUSABLE", "WHY UNUSABLE", "POOL", "AGE", "NODE", "TIME"],
];

/**
 * Lines of a table whose columns are as wide as they must be. When it is wider than allowed, long texts give way, and what is cut ends with an ellipsis; where that is
 * not enough, the columns that are missed least are left out.
 */
export function buildTable(header: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle): string[] {
  const cells = [header.map((text) => ({ text, colour: "bold" as const })), ...rows.map((row) => row.map(toCell))];
  const natural = header.map((_, index) => Math.max(...cells.map((row) => textWidth(row[index]?.text ?? ""))));
  const columns = style.columns === undefined ? natural.map(asItIs) : planColumns(header, natural, style.columns);
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

/** What came from elsewhere, without what would steer a terminal; line ends become spaces. */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what this is about
  return text.replaceAll(/\s+/g, " ").replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, "");
}

function toCell(cell: Cell): { text: string; colour: Colour } {
  return typeof cell === "string" ? { text: plain(cell), colour: "none" } : { ...cell, text: plain(cell.text) };
}

const ASCII = /^[\x20-\x7e]*$/;
const SEGMENTER = new Intl.Segmenter("en", { granularity: "grapheme" });
/** Letters of East Asia and pictures, of which terminals make two columns. */
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

function asItIs(width: number, index: number): Column {
  return { index, width };
}

/** Which columns are shown, and how wide. The first, which names the row and is what gets typed, gives way last. */
function planColumns(header: readonly string[], natural: readonly number[], most: number): Column[] {
  let columns = natural.map(asItIs);
  const [name] = header;
  for (const least of ["", ...MISSED_LEAST.filter((each) => each !== name)]) {
    columns = columns.filter(({ index }) => header[index] !== least);
    const shrunk = shrink(columns, most, TEXT_WIDTH_MIN);
    if (widthOf(shrunk) <= most) return shrunk;
  }
  let narrow = shrink(columns, most, COLUMN_WIDTH_MIN);
  while (columns.length > 1 && widthOf(narrow) > most) {
    columns = columns.slice(0, -1);
    narrow = shrink(columns, most, COLUMN_WIDTH_MIN);
  }
  return widthOf(narrow) <= most ? narrow : narrow.map(({ index }) => ({ index, width: Math.max(1, most) }));
}

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, { width }) => sum + width, 0) + GAP.length * (columns.length - 1);
}

/** Takes from the widest column until the table fits, or until all are as narrow as they may be; from the first only where that is not enough. */
function shrink(columns: readonly Column[], most: number, narrowest: number): Column[] {
  const widths = columns.map(({ width }) => width);
  for (let excess = widthOf(columns) - most; excess > 0; excess -= 1) {
    const widest = Math.max(0, ...widths.slice(1));
    const at = widest > narrowest ? widths.indexOf(widest, 1) : 0;
    const width = widths[at] ?? 0;
    if (width <= narrowest || (at === 0 && narrowest > COLUMN_WIDTH_MIN)) break;
    widths[at] = width - 1;
  }
  return columns.map(({ index }, place) => ({ index, width: widths[place] ?? 0 }));
}
