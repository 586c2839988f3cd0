import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactNode } from "react";
import type { Reservation, ReservationExplanation } from "../adapters/messages.ts";
import { askJson } from "../adapters/request.ts";
import { describeWait, formatAge } from "../domain/describe.ts";
import { barsOfQueue, describeQueueProblem, placeQueues, waitingIn, type PlacedQueue } from "../domain/queue-tree.ts";
import { CaptionedTable, type CaptionedColumn } from "../parts/captioned-table.tsx";
import { FeedNotice } from "../parts/feed-notice.tsx";
import { OwnerLink } from "../parts/owner-link.tsx";
import { QuotaBars } from "../parts/quota-bars.tsx";
import { ReservationView } from "../parts/reservation-view.tsx";
import { useFeed } from "../parts/use-feed.ts";
import { useNow } from "../parts/use-now.ts";

const NOW_MS = 5000;
/** Poll interval of the ledger's explanation, which changes with other work. */
const EXPLAIN_MS = 5000;
/** Maximum requests that a queue shows; further requests are counted. */
const MAX_WAITING = 10;

export function Queues(): ReactNode {
  const queues = useFeed("queues");
  const reservations = useFeed("reservations");
  const nowMs = useNow(NOW_MS);
  const placed = useMemo(() => placeQueues(queues.list), [queues.list]);
  const unqueued = useMemo(() => waitingIn("", reservations.list), [reservations.list]);
  return (
    <>
      <h1>Queues</h1>
      <FeedNotice
        feeds={[
          { name: "queues", feed: queues },
          { name: "reservations", feed: reservations },
        ]}
      />
      {placed.length === 0 && queues.status === "live" && (
        <p className="quiet">There are no queues: work waits for machines, and for no quota.</p>
      )}
      <ul className="tree">
        {placed.map((queue) => (
          <QueueCard key={queue.name} queue={queue} reservations={reservations.list} nowMs={nowMs} />
        ))}
      </ul>
      {unqueued.length > 0 && (
        <section aria-labelledby="unqueued">
          <h2 id="unqueued">Without a queue</h2>
          <Waiting label="Requests without a queue" waiting={unqueued} nowMs={nowMs} />
        </section>
      )}
    </>
  );
}

type QueueParts = {
  readonly queue: PlacedQueue;
  readonly reservations: readonly Reservation[];
  readonly nowMs: number;
};

function QueueCard({ queue: { name, depth, state }, reservations, nowMs }: QueueParts): ReactNode {
  const waiting = useMemo(() => waitingIn(name, reservations), [name, reservations]);
  const { problem, admitted, pending, shareMillionths, queue } = state;
  return (
    <li className={`card depth${Math.min(depth, MAX_DEPTH)}`}>
      <h2 className="long">{name}</h2>
      <p className="quiet">
        {queue?.parent && `below ${queue.parent}; `}
        {queue?.strategy && `${queue.strategy}; `}
        {admitted} admitted, {pending} waiting
        {shareMillionths > 0 &&
          `; borrows ${(shareMillionths / 10_000).toFixed(1)} % of what its parent may use, divided by its weight`}
      </p>
      {problem === "NOT_A_LEAF" && <p className="quiet">The queues below it admit its work.</p>}
      {problem !== "" && problem !== "NOT_A_LEAF" && (
        <p className="notice warn">
          <code>{problem}</code> It admits nothing: {describeQueueProblem(problem)}.
        </p>
      )}
      <QuotaBars bars={barsOfQueue(state)} />
      {waiting.length > 0 && <Waiting label={`Requests that wait in ${name}`} waiting={waiting} nowMs={nowMs} />}
    </li>
  );
}

/** Maximum depth with its own indent; deeper queues share this indent. */
const MAX_DEPTH = 4;

type WaitingParts = { readonly label: string; readonly waiting: readonly Reservation[]; readonly nowMs: number };

function Waiting({ label, waiting, nowMs }: WaitingParts): ReactNode {
  const [opened, setOpened] = useState<string>();
  const open = waiting.find(({ id }) => id === opened)?.owner;
  const columns: readonly CaptionedColumn<Reservation>[] = [
    { header: "Place", cell: (_, index) => index + 1 },
    { header: "Owner", isHeading: true, cell: ({ owner }) => owner && <OwnerLink owner={owner} /> },
    { header: "Priority", cell: ({ priority }) => priority },
    { header: "Machines", cell: ({ needs }) => needs.length },
    { header: "Waiting", cell: ({ createdAtMs }) => formatAge(createdAtMs, nowMs) },
    {
      header: "Reason",
      cell: ({ because }) =>
        because && (
          <>
            <code>{because.code}</code> {describeWait(because)}
          </>
        ),
    },
    {
      header: "Start",
      cell: ({ id, owner }) => (
        <button
          type="button"
          aria-expanded={id === opened}
          aria-label={`When does ${owner?.kind ?? ""}/${owner?.id ?? ""} start?`}
          onClick={() => setOpened(id === opened ? undefined : id)}
        >
          When?
        </button>
      ),
    },
  ];
  return (
    <>
      <CaptionedTable
        caption="Who is next"
        label={label}
        rows={waiting.slice(0, MAX_WAITING)}
        columns={columns}
        rowKey={({ id }) => id}
      />
      {waiting.length > MAX_WAITING && <p className="quiet">and {waiting.length - MAX_WAITING} more</p>}
      {open && <Explained owner={open} nowMs={nowMs} />}
    </>
  );
}

type ExplainedParts = { readonly owner: NonNullable<Reservation["owner"]>; readonly nowMs: number };

/** The ledger's explanation of one waiting request. */
function Explained({ owner: { kind, id }, nowMs }: ExplainedParts): ReactNode {
  const { data, error } = useQuery({
    queryKey: ["reservation", kind, id],
    queryFn: ({ signal }) =>
      askJson<ReservationExplanation>(
        `/v1/reservations/${encodeURIComponent(kind)}/${encodeURIComponent(id)}/explain`,
        { signal },
      ),
    refetchInterval: EXPLAIN_MS,
  });
  return (
    <section className="notice" aria-label={`${kind}/${id}`}>
      <h3 className="long">
        {kind}/{id}
      </h3>
      {error !== null && <p>{error.message}</p>}
      {data === undefined && error === null && <p className="quiet">Loading…</p>}
      {data && (
        <>
          <p className="long">{data.message}</p>
          <ReservationView explained={data} nowMs={nowMs} />
        </>
      )}
    </section>
  );
}
