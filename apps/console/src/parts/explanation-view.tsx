import type { ReactNode } from "react";
import type { Explanation, ReservationExplanation } from "../adapters/messages.ts";
import { formatAmount } from "../domain/describe.ts";
import { CaptionedTable, type CaptionedColumn } from "./captioned-table.tsx";
import { OwnerLink } from "./owner-link.tsx";
import { ReservationView } from "./reservation-view.tsx";

type ExplanationParts = { readonly explanation: Explanation; readonly nowMs: number };

/** Shows why work is in its phase, the next step for the user, the owners of the machines, and the requests that are served first. */
export function ExplanationView({ explanation, nowMs }: ExplanationParts): ReactNode {
  const { reasons, reservation, scaling } = explanation;
  const waits = reservation !== undefined && reservation.code !== "";
  return (
    <>
      <ul className="rows">
        {reasons.map(({ code, message, next }) => (
          <li key={code}>
            <code>{code}</code> <span>{message}</span>
            {next !== "" && <p>{next}</p>}
          </li>
        ))}
      </ul>
      {waits && (
        <>
          {reasons.every(({ message }) => message !== reservation.message) && <p>{reservation.message}</p>}
          <ReservationView explained={reservation} nowMs={nowMs} />
        </>
      )}
      {(reservation?.pools.length ?? 0) > 0 && (
        <CaptionedTable
          caption="Pools"
          label="Pools of the reservation"
          rows={reservation?.pools ?? []}
          columns={POOL_COLUMNS}
          rowKey={({ pool, nodes }) => `${pool} ${nodes}`}
        />
      )}
      {scaling && <p>{scaling.demand?.message || scaling.trouble}</p>}
    </>
  );
}

type PoolExplanation = ReservationExplanation["pools"][number];

const POOL_COLUMNS: readonly CaptionedColumn<PoolExplanation>[] = [
  { header: "Pool", isHeading: true, cell: ({ pool }) => pool },
  { header: "Requested", cell: ({ requested }) => requested },
  { header: "Free", cell: ({ available }) => available },
  { header: "Held", cell: ({ held }) => held },
  { header: "Capacity", cell: ({ capacity }) => capacity },
  { header: "Lost", cell: ({ unusable }) => unusable },
  { header: "Held by", cell: HeldBy },
];

function HeldBy({ holders, holdersMore, parts }: PoolExplanation): ReactNode {
  return (
    <>
      {holders.map(({ owner, reservationId }) => (
        <span key={reservationId}>{owner && <OwnerLink owner={owner} />} </span>
      ))}
      {holdersMore > 0 && `and ${holdersMore} more`}
      {parts.map(({ requested, fitting, part }) => (
        <p key={JSON.stringify(part)} className="quiet">
          {fitting} of {requested} parts of{" "}
          {Object.entries(part?.requests ?? {})
            .map(([resource, amount]) => `${formatAmount(resource, amount)} ${resource}`)
            .join(", ")}{" "}
          fit
        </p>
      ))}
    </>
  );
}
