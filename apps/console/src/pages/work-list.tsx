import { Link } from "@tanstack/react-router";
import { useDeferredValue, useMemo, type ReactNode } from "react";
import { areCurrent } from "../domain/fold-feed.ts";
import { selectWork } from "../domain/select-work.ts";
import { nextSort } from "../domain/sort.ts";
import { STAGES, WORK_KINDS, type Stage, type Work, type WorkKind } from "../domain/work.ts";
import { Age } from "../parts/age.tsx";
import { Badge } from "../parts/badge.tsx";
import { DataTable, type Column } from "../parts/data-table.tsx";
import { FeedNotice } from "../parts/feed-notice.tsx";
import { useWork } from "../parts/use-work.ts";
import { WorkLink } from "../parts/work-link.tsx";
import { workRoute } from "../routes.ts";

export function WorkList(): ReactNode {
  const { work, feeds } = useWork();
  const search = workRoute.useSearch();
  const navigate = workRoute.useNavigate();
  const { q, kind, stage, sort, desc } = search;
  // Typing has priority over the list, which may have thousands of rows.
  const wanted = useDeferredValue(q);
  const shown = useMemo(
    () => selectWork(work, { ...(wanted && { q: wanted }), ...(kind && { kind }), ...(stage && { stage }) }),
    [work, wanted, kind, stage],
  );
  const filter = (change: { q?: string | undefined; kind?: WorkKind | undefined; stage?: Stage | undefined }): void => {
    // The address omits empty filters.
    const all = Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined && value !== "");
    void navigate({ search: Object.fromEntries(all), replace: true });
  };
  return (
    <div className="page-list">
      <h1>Work</h1>
      <FeedNotice feeds={feeds} />
      <form role="search" className="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span>Search</span>
          <input type="search" value={q ?? ""} onChange={({ target }) => filter({ q: target.value })} />
        </label>
        <Choice label="Kind" value={kind} values={WORK_KINDS} onChange={(value) => filter({ kind: value })} />
        <Choice label="Stage" value={stage} values={STAGES} onChange={(value) => filter({ stage: value })} />
        <output>
          {shown.length} of {work.length}
        </output>
      </form>
      <DataTable
        label="Work"
        rows={shown}
        columns={COLUMNS}
        rowId={({ kind: of, type, id }) => `${of}/${type}/${id}`}
        sort={{ ...(sort !== undefined && { sort }), ...(desc && { desc }) }}
        onSort={(column) => {
          const { sort: _, desc: __, ...rest } = search;
          void navigate({ search: { ...rest, ...nextSort(search, column) }, replace: true });
        }}
        empty={
          work.length > 0 ? (
            "No work fits the filter."
          ) : !areCurrent(feeds.map(({ feed }) => feed)) ? (
            "Not all lists are current."
          ) : (
            <>
              There is no work yet. <Link to="/submit">Submit</Link> some.
            </>
          )
        }
      />
    </div>
  );
}

type ChoiceParts<Value extends string> = {
  readonly label: string;
  readonly value: Value | undefined;
  readonly values: readonly Value[];
  readonly onChange: (value: Value | undefined) => void;
};

function Choice<Value extends string>({ label, value, values, onChange }: ChoiceParts<Value>): ReactNode {
  return (
    <label>
      <span>{label}</span>
      <select value={value ?? ""} onChange={({ target }) => onChange(values.find((each) => each === target.value))}>
        <option value="">all</option>
        {values.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}

const COLUMNS: Column<Work>[] = [
  { id: "name", header: "Name", accessorKey: "name", cell: ({ row }) => <WorkLink work={row.original} /> },
  { id: "kind", header: "Kind", accessorFn: ({ kind, type }) => type || kind },
  {
    id: "state",
    header: "State",
    accessorFn: ({ stage }) => STAGES.indexOf(stage),
    cell: ({ row }) => <Badge stage={row.original.stage}>{row.original.state}</Badge>,
  },
  { id: "pools", header: "Pools", accessorFn: ({ pools }) => pools.join(", ") },
  { id: "machines", header: "Parts", accessorKey: "machines" },
  {
    id: "age",
    header: "Age",
    // Ascending order shows the newest first.
    accessorFn: ({ createdAtMs }) => -createdAtMs,
    cell: ({ row }) => <Age sinceMs={row.original.createdAtMs} />,
  },
  {
    id: "because",
    header: "Reason",
    accessorFn: ({ code, because }) => `${code} ${because}`,
    cell: ({ row }) => <Reason {...row.original} />,
  },
];

function Reason({ code, because }: Work): ReactNode {
  return (
    <span className="clip" title={because}>
      {code !== "" && <code>{code}</code>} {because}
    </span>
  );
}
