import type { ReactNode } from "react";
import type { Explanation } from "../adapters/messages.ts";
import { formatAmount } from "../domain/describe.ts";
import { OwnerLink } from "./owner-link.tsx";

/** Why work is in its phase, what the user can do, and who has the machines. */
export function ExplanationView({ explanation }: { readonly explanation: Explanation }): ReactNode {
  const { reasons, reservation, scaling } = explanation;
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
      {reservation?.place && reservation.code !== "" && <p>{reservation.message}</p>}
      {(reservation?.pools.length ?? 0) > 0 && (
        <div className="wide-box" tabIndex={0} role="region" aria-label="Pools of the reservation">
          <table>
            <caption>Pools</caption>
            <thead>
              <tr>
                {["Pool", "Requested", "Free", "Held", "Capacity", "Lost", "Held by"].map((head) => (
                  <th key={head} scope="col">
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {reservation?.pools.map((pool) => (
                <tr key={`${pool.pool} ${pool.nodes}`}>
                  <th scope="row">{pool.pool}</th>
                  <td>{pool.requested}</td>
                  <td>{pool.available}</td>
                  <td>{pool.held}</td>
                  <td>{pool.capacity}</td>
                  <td>{pool.unusable}</td>
                  <td>
                    {pool.holders.map(({ owner, reservationId }) => (
                      <span key={reservationId}>{owner && <OwnerLink owner={owner} />} </span>
                    ))}
                    {pool.holdersMore > 0 && `and ${pool.holdersMore} more`}
                    {pool.parts.map(({ requested, fitting, part }) => (
                      <p key={JSON.stringify(part)} className="quiet">
                        {fitting} of {requested} parts of{" "}
                        {Object.entries(part?.requests ?? {})
                          .map(([resource, amount]) => `${formatAmount(resource, amount)} ${resource}`)
                          .join(", ")}{" "}
                        fit
                      </p>
                    ))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {scaling && <p>{scaling.demand?.message || scaling.trouble}</p>}
    </>
  );
}
