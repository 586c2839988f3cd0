import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import type { MachineState } from "../adapters/messages.ts";
import { askJson } from "../adapters/request.ts";
import { CaptionedTable, type CaptionedColumn } from "./captioned-table.tsx";
import { OwnerLink } from "./owner-link.tsx";

const MAX_MACHINES = 500;
const POLL_MS = 5000;

/** Lists the machines of a pool by name, for keyboard and touch users. The machines are read only while they are shown. */
export function MachineList({ pool }: { readonly pool: string }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>Machines by name</summary>
      {isOpen && <Machines pool={pool} />}
    </details>
  );
}

function Machines({ pool }: { readonly pool: string }): ReactNode {
  const { data, error } = useQuery({
    queryKey: ["machines", pool],
    queryFn: ({ signal }) =>
      askJson<{ readonly items: readonly MachineState[]; readonly continue?: string }>(
        `/v1/machines?pool=${encodeURIComponent(pool)}&limit=${MAX_MACHINES}`,
        { signal },
      ),
    refetchInterval: POLL_MS,
  });
  if (error !== null) return <p className="notice bad">{error.message}</p>;
  if (data === undefined) return <p className="quiet">Loading…</p>;
  return (
    <>
      <CaptionedTable caption={`Machines of ${pool}`} rows={data.items} columns={COLUMNS} rowKey={({ node }) => node} />
      {data.continue && <p className="quiet">These are the first {MAX_MACHINES} by name.</p>}
    </>
  );
}

const COLUMNS: readonly CaptionedColumn<MachineState>[] = [
  { header: "Node", isHeading: true, cell: ({ node }) => node },
  { header: "State", cell: ({ standing }) => standing },
  {
    header: "Held by",
    cell: ({ holder, sharedHolders }) => {
      const holders = [...(holder ? [holder] : []), ...sharedHolders];
      if (holders.length === 0) return "";
      return holders.map(({ owner, reservationId }) => (
        <span key={reservationId}>{owner && <OwnerLink owner={owner} />} </span>
      ));
    },
  },
  { header: "Other pods", cell: ({ foreign }) => foreign?.pods || "" },
];
