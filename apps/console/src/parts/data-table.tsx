import { flexRender, getCoreRowModel, getSortedRowModel, useReactTable, type ColumnDef } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, type ReactNode } from "react";
import type { Sort } from "../domain/sort.ts";

const ROW_PIXELS = 40;

type TableParts<Row> = {
  /** For assistive technology. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly ColumnDef<Row>[];
  readonly rowId: (row: Row) => string;
  readonly sort: Sort;
  readonly onSort: (column: string) => void;
  readonly empty: string;
};

/** A sorted list of any length: only the rows in view are in the page. */
export function DataTable<Row>({ label, rows, columns, rowId, sort, onSort, empty }: TableParts<Row>): ReactNode {
  const scroller = useRef<HTMLDivElement>(null);
  const data = useMemo(() => [...rows], [rows]);
  const sorting = sort.sort === undefined ? [] : [{ id: sort.sort, desc: sort.desc ?? false }];
  const table = useReactTable({
    data,
    columns: columns as ColumnDef<Row>[],
    state: { sorting },
    getRowId: rowId,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  const sorted = table.getRowModel().rows;
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PIXELS,
    getItemKey: (index) => sorted[index]?.id ?? index,
    overscan: 10,
  });
  return (
    <div className="table" role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
      <div role="rowgroup">
        <div role="row" className="row head" aria-rowindex={1}>
          {table.getFlatHeaders().map(({ id, column, getContext }) => (
            <div key={id} role="columnheader" className={`cell ${id}`} aria-sort={sortOf(sort, id)}>
              <button type="button" onClick={() => onSort(id)}>
                {flexRender(column.columnDef.header, getContext())}
                <span aria-hidden="true">{sort.sort === id ? (sort.desc ? " ▾" : " ▴") : ""}</span>
              </button>
            </div>
          ))}
        </div>
      </div>
      <div ref={scroller} className="scroller" role="rowgroup" tabIndex={0} aria-label={`Rows of ${label}`}>
        {sorted.length === 0 && <p className="quiet empty">{empty}</p>}
        <div role="presentation" className="rows-space" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ key, index, start }) => {
            const row = sorted[index];
            return (
              row && (
                <div
                  key={key}
                  ref={virtual.measureElement}
                  data-index={index}
                  role="row"
                  className="row"
                  aria-rowindex={index + 2}
                  style={{ transform: `translateY(${start}px)` }}
                >
                  {row.getVisibleCells().map(({ id, column, getContext }) => (
                    <div key={id} role="cell" className={`cell ${column.id}`}>
                      {flexRender(column.columnDef.cell, getContext())}
                    </div>
                  ))}
                </div>
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}

function sortOf({ sort, desc = false }: Sort, column: string): "ascending" | "descending" | "none" {
  if (sort !== column) return "none";
  return desc ? "descending" : "ascending";
}
