import { useMemo, type ReactNode } from "react";
import type { ReservationExplanation } from "../adapters/messages.ts";
import { describeRule } from "../domain/describe-order.ts";
import { formatAge, formatTime } from "../domain/describe.ts";
import { estimateStart, latestEnds } from "../domain/estimate-start.ts";
import { CaptionedTable, type CaptionedColumn } from "./captioned-table.tsx";
import { OwnerLink } from "./owner-link.tsx";
import { useFeed } from "./use-feed.ts";

type Holder = ReservationExplanation["preempted"][number];
type Ahead = ReservationExplanation["requestsAhead"][number];

/** Shows when a waiting request gets its machines, which requests are served first, and which work is preempted for it. */
export function ReservationView({
  explained,
  nowMs,
}: {
  readonly explained: ReservationExplanation;
  readonly nowMs: number;
}): ReactNode {
  const { requestsAhead, requestsAheadMore, preempted, preemptedMore, preemption } = explained;
  const again = preemption?.againAtMs ?? 0;
  const columns = useMemo(() => aheadColumns(nowMs), [nowMs]);
  return (
    <>
      <Start explained={explained} nowMs={nowMs} />
      <Leaving label="Must leave for it:" holders={preempted} more={preemptedMore} />
      <Leaving
        label="Would have to leave for it:"
        holders={preemption?.victims ?? []}
        more={preemption?.victimsMore ?? 0}
      />
      {preemption !== undefined && preempted.length === 0 && preemption.victims.length === 0 && (
        <p>No work that its queue may preempt is enough now.</p>
      )}
      {again > nowMs && <p>More work may be preempted in {formatAge(nowMs, again)}, when its minRunTime is over.</p>}
      {preemption !== undefined && preemption.limit !== "" && (
        <p>
          The limit <code>{preemption.limit}</code> of the ledger keeps work from being preempted for it.
        </p>
      )}
      {requestsAhead.length > 0 && (
        <CaptionedTable
          caption="Goes first"
          rows={requestsAhead}
          columns={columns}
          rowKey={({ reservationId }) => reservationId}
        />
      )}
      {requestsAheadMore > 0 && <p className="quiet">and {requestsAheadMore} more</p>}
    </>
  );
}

function Start({
  explained,
  nowMs,
}: {
  readonly explained: ReservationExplanation;
  readonly nowMs: number;
}): ReactNode {
  const { list: reservations } = useFeed("reservations");
  const { list: sessions } = useFeed("sessions");
  const { list: leases } = useFeed("leases");
  const ends = useMemo(() => latestEnds(reservations, sessions, leases), [reservations, sessions, leases]);
  const { byMs, because } = estimateStart(explained, ends);
  return (
    <p>
      <strong>Estimated start:</strong>{" "}
      {byMs === undefined ? (
        <>unknown, because {because}.</>
      ) : (
        <>
          by <time>{formatTime(byMs)}</time>
          {byMs > nowMs && `, in ${formatAge(nowMs, byMs)}`}: {because}. Requests that go first may still arrive.
        </>
      )}
    </p>
  );
}

type LeavingParts = { readonly label: string; readonly holders: readonly Holder[]; readonly more: number };

function Leaving({ label, holders, more }: LeavingParts): ReactNode {
  if (holders.length === 0) return null;
  return (
    <p>
      <strong>{label}</strong>{" "}
      {holders.map(({ owner, reservationId, machines }, index) => (
        <span key={reservationId}>
          {index > 0 && ", "}
          {owner && <OwnerLink owner={owner} />} ({machines} {machines === 1 ? "machine" : "machines"})
        </span>
      ))}
      {more > 0 && ` and ${more} more`}
    </p>
  );
}

function aheadColumns(nowMs: number): readonly CaptionedColumn<Ahead>[] {
  return [
    { header: "Owner", isHeading: true, cell: ({ owner }) => owner && <OwnerLink owner={owner} /> },
    { header: "Queue", cell: ({ queue }) => queue },
    { header: "Priority", cell: ({ priority }) => priority },
    { header: "Waits for", cell: ({ createdAtMs }) => formatAge(createdAtMs, nowMs) },
    { header: "Because", cell: describeRule },
  ];
}
