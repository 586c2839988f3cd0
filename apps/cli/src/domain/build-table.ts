import { paint, type Colour } from "./paint.ts";

export type Cell = string | { readonly text: string; readonly colour: Colour };

export type TableStyle = {
  /** Longest line that is allowed; undefined: as long as it takes, because nobody sees it on a terminal. */
  readonly columns: number | undefined;
  readonly colours: boolean;
};

/** Narrower than this a column says nothing any more. */
const COLUMN_WIDTH_MIN = 4;
const GAP = "  ";

/** Lines of a table whose columns are as wide as they must be. When it is wider than allowed, the widest columns give way, and what is cut ends with an ellipsis. */
export function buildTable(header: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle): string[] {
  const cells = [header.map((text) => ({ text, colour: "bold" as const })), ...rows.map((row) => row.map(toCell))];
  const widths = header.map((_, index) => Math.max(...cells.map((row) => textWidth(row[index]?.text ?? ""))));
  if (style.columns !== undefined) shrink(widths, style.columns);
  return cells.map((row) => {
    const texts = row.map(({ text, colour }, index) => {
      const fitted = fit(text, widths[index] ?? 0);
      const padding = " ".repeat(Math.max(0, (widths[index] ?? 0) - textWidth(fitted)));
      return paint(fitted, colour, style.colours) + (index === row.length - 1 ? "" : padding);
    });
    return texts.join(GAP).trimEnd();
  });
}

/** Cuts a line that is longer than the terminal, so that it stays one line. */
export function fit(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  return width <= 1
    ? "…".slice(0, width)
    : `${Array.from(text)
        .slice(0, width - 1)
        .join("")}…`;
}

/** What came from elsewhere, without what would steer a terminal; line ends become spaces. */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what this is about
  return text.replaceAll(/\s+/g, " ").replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, "");
}

function toCell(cell: Cell): { text: string; colour: Colour } {
  return typeof cell === "string" ? { text: plain(cell), colour: "none" } : { ...cell, text: plain(cell.text) };
}

function textWidth(text: string): number {
  return Array.from(text).length;
}

/** Takes from the widest column until the table fits, or until nothing can be taken. The first, which names the row and is what gets typed, gives way last. */
function shrink(widths: number[], columns: number): void {
  let excess = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1) - columns;
  while (excess > 0) {
    const others = Math.max(0, ...widths.slice(1));
    const index = others > COLUMN_WIDTH_MIN ? widths.indexOf(others, 1) : 0;
    const width = widths[index] ?? 0;
    if (width <= COLUMN_WIDTH_MIN) return;
    widths[index] = width - 1;
    excess -= 1;
  }
}
