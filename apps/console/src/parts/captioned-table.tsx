import type { ReactNode } from "react";

/** A column of a short table. It is omitted if its cells are empty in every row. */
export type CaptionedColumn<Row> = {
  readonly header: string;
  readonly cell: (row: Row, index: number) => ReactNode;
  /** Set if the cell names its row. */
  readonly isHeading?: true;
};

type TableParts<Row> = {
  readonly caption: string;
  /** The label for assistive technology, if the caption is not unique on its page. */
  readonly label?: string;
  readonly rows: readonly Row[];
  readonly columns: readonly CaptionedColumn<Row>[];
  readonly rowKey: (row: Row, index: number) => string;
};

/**
 * A table that renders all of its rows, and scrolls sideways if it is too wide. On a narrow page each row is a block.
 * The roles are explicit, because some browsers derive none from a table with another layout.
 */
export function CaptionedTable<Row>({ caption, label = caption, rows, columns, rowKey }: TableParts<Row>): ReactNode {
  const cells = rows.map((row, index) => columns.map(({ cell }) => cell(row, index)));
  const shown = columns
    .map((column, at) => ({ ...column, at }))
    .filter(({ at }) => cells.some((row) => row[at] !== "" && row[at] !== undefined));
  return (
    <div className="wide-box" tabIndex={0} role="region" aria-label={label}>
      <table role="table">
        <caption>{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {shown.map(({ header }) => (
              <th key={header} scope="col" role="columnheader">
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row, index) => (
            <tr key={rowKey(row, index)} role="row">
              {shown.map(({ header, isHeading, at }) =>
                isHeading ? (
                  <th key={header} scope="row" role="rowheader">
                    {cells[index]?.[at]}
                  </th>
                ) : (
                  <td key={header} role="cell" data-label={header}>
                    {cells[index]?.[at]}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
