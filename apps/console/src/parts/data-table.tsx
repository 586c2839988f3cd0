import {
  createSortedRowModel,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
  type ColumnDef,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, type ReactNode } from "react";
import type { Sort } from "../domain/sort.ts";

const ROW_PIXELS = 40;

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
});

/** A column of a list. */
export type Column<Row extends object> = ColumnDef<typeof features, Row> & {
  readonly id: string;
  readonly header: string;
};

type TableParts<Row extends object> = {
  /** The label for assistive technology. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: Column<Row>[];
  readonly rowId: (row: Row) => string;
  readonly sort: Sort;
  readonly onSort: (column: string) => void;
  readonly empty: ReactNode;
};

/** A sorted list of any length, which renders only the rows in view. */
export function DataTable<Row extends object>({
  label,
  rows,
  columns,
  rowId,
  sort,
  onSort,
  empty,
}: TableParts<Row>): ReactNode {
  const scroller = useRef<HTMLDivElement>(null);
  const data = useMemo(() => [...rows], [rows]);
  const sorting = useMemo(
    () => (sort.sort === undefined ? [] : [{ id: sort.sort, desc: sort.desc ?? false }]),
    [sort.sort, sort.desc],
  );
  const table = useTable({ features, data, columns, state: { sorting }, getRowId: rowId });
  const sorted = table.getRowModel().rows;
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PIXELS,
    getItemKey: (index) => sorted[index]?.id ?? index,
    overscan: 10,
  });
  return (
    <div className="table" role="table" aria-label={label} aria-rowcount={Math.max(sorted.length, 1) + 1}>
      <Head columns={columns} sort={sort} onSort={onSort} />
      <div
        ref={scroller}
        className="scroller"
        data-scroll-restoration-id={label}
        role="rowgroup"
        tabIndex={0}
        aria-label={`Rows of ${label}`}
      >
        {sorted.length === 0 && (
          <div role="row" aria-rowindex={2}>
            <p role="cell" className="quiet empty">
              {empty}
            </p>
          </div>
        )}
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
                  {row.getAllCells().map((cell) => (
                    <div key={cell.id} role="cell" className={`cell ${cell.column.id}`}>
                      <table.FlexRender cell={cell} />
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

function Head<Row extends object>({
  columns,
  sort,
  onSort,
}: Pick<TableParts<Row>, "columns" | "sort" | "onSort">): ReactNode {
  return (
    <div role="rowgroup">
      <div role="row" className="row head" aria-rowindex={1}>
        {columns.map(({ id, header, enableSorting = true }) => (
          <div
            key={id}
            role="columnheader"
            className={`cell ${id}`}
            {...(enableSorting && { "aria-sort": sortOf(sort, id) })}
          >
            {enableSorting ? (
              <button type="button" onClick={() => onSort(id)}>
                {header}
                <span aria-hidden="true">{sort.sort === id ? (sort.desc ? " ▾" : " ▴") : ""}</span>
              </button>
            ) : (
              header
            )}
          </div>
        ))}
      </div>
    </div>
  );
}

function sortOf({ sort, desc = false }: Sort, column: string): "ascending" | "descending" | "none" {
  if (sort !== column) return "none";
  return desc ? "descending" : "ascending";
}
