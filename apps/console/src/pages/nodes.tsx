import { describePrices, formatPrice } from "@muster/resources";
import { useMemo, useState, type ReactNode } from "react";
import type { NodeRecord } from "../adapters/messages.ts";
import { ask } from "../adapters/request.ts";
import { formatAge, formatTime } from "../domain/describe.ts";
import { areCurrent } from "../domain/fold-feed.ts";
import { holderOrDemandOf, selectNodes, stageOfNode } from "../domain/nodes.ts";
import { nextSort } from "../domain/sort.ts";
import { Badge } from "../parts/badge.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { DataTable, type Column } from "../parts/data-table.tsx";
import { FeedNotice } from "../parts/feed-notice.tsx";
import { OwnerLink } from "../parts/owner-link.tsx";
import { useSignedIn } from "../parts/sign-in-gate.tsx";
import { useFeed } from "../parts/use-feed.ts";
import { useNow } from "../parts/use-now.ts";
import { nodesRoute } from "../routes.ts";

const NOW_MS = 5000;

export function Nodes(): ReactNode {
  const nodes = useFeed("nodes");
  const search = nodesRoute.useSearch();
  const navigate = nodesRoute.useNavigate();
  const nowMs = useNow(NOW_MS);
  const [ending, setEnding] = useState<NodeRecord>();
  const { q = "", sort, desc } = search;
  const shown = useMemo(() => selectNodes(nodes.list, q), [nodes.list, q]);
  const prices = useMemo(() => describePricesOf(shown), [shown]);
  const hasPrices = prices !== undefined;
  const columns = useMemo(() => columnsAt(nowMs, { hasPrices, terminate: setEnding }), [nowMs, hasPrices]);
  return (
    <div className="page-list">
      <h1>Nodes</h1>
      <p className="quiet">
        Nodes that the scaler makes, and for whom. Nodes that it did not make are in the pools of the overview.
      </p>
      <FeedNotice feeds={[{ name: "nodes", feed: nodes }]} />
      <form role="search" className="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span>Search</span>
          <input
            type="search"
            value={q}
            onChange={({ target }) => {
              const { q: _, ...rest } = search;
              void navigate({ search: { ...rest, ...(target.value !== "" && { q: target.value }) }, replace: true });
            }}
          />
        </label>
        <output>
          {shown.length} of {nodes.list.length}
          {prices !== undefined && `, ${prices}`}
        </output>
      </form>
      <DataTable
        label="Nodes"
        rows={shown}
        columns={columns}
        rowId={({ name }) => name}
        sort={{ ...(sort !== undefined && { sort }), ...(desc && { desc }) }}
        onSort={(column) => {
          const { sort: _, desc: __, ...rest } = search;
          void navigate({ search: { ...rest, ...nextSort(search, column) }, replace: true });
        }}
        empty={nodes.list.length > 0 ? "No node fits the search." : describeNone(areCurrent([nodes]))}
      />
      {ending !== undefined && <Terminate node={ending} onClose={() => setEnding(undefined)} />}
    </div>
  );
}

function describePricesOf(nodes: readonly NodeRecord[]): string | undefined {
  return describePrices(nodes.filter(({ phase }) => phase !== "TERMINATED").map(({ spec }) => spec ?? {}));
}

function describeNone(isCurrent: boolean): string {
  return isCurrent ? "The scaler has made no nodes." : "The list is not current.";
}

function Terminate({ node, onClose }: { readonly node: NodeRecord; readonly onClose: () => void }): ReactNode {
  const { name } = node;
  const whom = holderOrDemandOf(node);
  const { csrfToken } = useSignedIn();
  const act = (): Promise<unknown> => ask(`/v1/nodes/${encodeURIComponent(name)}`, { method: "DELETE", csrfToken });
  return (
    <Confirm title={`Terminate ${name}?`} verb="Terminate it" act={act} onClose={onClose}>
      {whom !== "" && <p className="long">It works for {whom}.</p>}
      <p>It is drained first. Pods that remain after the drain timeout of the node-scaler end with the node.</p>
    </Confirm>
  );
}

const NAME: Column<NodeRecord> = {
  id: "name",
  header: "Name",
  accessorKey: "name",
  cell: ({ row }) => <span title={row.original.kubernetesNode || row.original.instanceId}>{row.original.name}</span>,
};
const POOL: Column<NodeRecord> = { id: "pool", header: "Pool", accessorFn: ({ spec }) => spec?.pool ?? "" };
const PRICE: Column<NodeRecord> = {
  id: "price",
  header: "Price/h",
  accessorFn: ({ spec }) => spec?.pricePerHourMicros ?? 0,
  cell: ({ row: { original: node } }) =>
    node.spec?.pricePerHourMicros ? formatPrice(node.spec.pricePerHourMicros) : "-",
};

type ColumnOptions = { readonly hasPrices: boolean; readonly terminate: (node: NodeRecord) => void };

function columnsAt(nowMs: number, { hasPrices, terminate }: ColumnOptions): Column<NodeRecord>[] {
  return [
    NAME,
    {
      id: "phase",
      header: "Phase",
      accessorFn: ({ phase = "" }) => phase,
      cell: ({ row }) => (
        <Badge stage={stageOfNode(row.original)}>
          {row.original.phase} {formatAge(row.original.phaseSinceMs, nowMs)}
        </Badge>
      ),
    },
    POOL,
    {
      id: "type",
      header: "Type",
      accessorFn: ({ spec }) => [spec?.instanceType, spec?.spot ? "spot" : "", spec?.zone].filter(Boolean).join(" "),
    },
    ...(hasPrices ? [PRICE] : []),
    {
      id: "whom",
      header: "For",
      accessorFn: holderOrDemandOf,
      cell: ({ row: { original: node } }) => (node.holder ? <OwnerLink owner={node.holder} /> : node.boundTo),
    },
    {
      id: "age",
      header: "Age",
      accessorFn: ({ createdAtMs }) => -createdAtMs,
      cell: ({ row }) => (
        <time title={formatTime(row.original.createdAtMs)}>{formatAge(row.original.createdAtMs, nowMs)}</time>
      ),
    },
    {
      id: "trouble",
      header: "Trouble",
      accessorFn: ({ troubleCode, trouble, spec }) => troubleCode || trouble || (spec?.terminate?.code ?? ""),
      cell: ({ row: { original: node } }) => (
        <span className="clip" title={node.trouble || node.spec?.terminate?.message}>
          {node.troubleCode !== "" && <code>{node.troubleCode}</code>} {node.trouble || node.spec?.terminate?.message}
        </span>
      ),
    },
    {
      id: "end",
      header: "Action",
      enableSorting: false,
      cell: ({ row: { original: node } }) =>
        node.spec?.terminate ? (
          <span className="quiet">terminating</span>
        ) : (
          <button
            type="button"
            className="danger"
            onClick={() => terminate(node)}
            aria-label={`Terminate ${node.name}…`}
          >
            Terminate…
          </button>
        ),
    },
  ];
}
