import type { ReactNode } from "react";
import { formatAmount } from "../domain/describe.ts";
import type { QueueBar } from "../domain/queue-tree.ts";

/** Shows used, nominal and borrowed amounts, one bar for each resource. */
export function QuotaBars({ bars }: { readonly bars: readonly QueueBar[] }): ReactNode {
  if (bars.length === 0) return <p className="quiet">no quota of its own, and nothing used</p>;
  return (
    <ul className="bars">
      {bars.map(({ pool, resource, used, nominal, borrowed }) => {
        const whole = Math.max(used, nominal, 1);
        const percent = (amount: number): string => `${(amount / whole) * 100}%`;
        return (
          <li key={`${pool}/${resource}`}>
            <span className="long">
              {pool} {resource}
            </span>
            <svg className="bar" aria-hidden="true" height="10" width="100%">
              <rect className="nominal" width={percent(nominal)} height="10" />
              <rect className="used" width={percent(used - borrowed)} height="10" />
              <rect className="borrowed" x={percent(used - borrowed)} width={percent(borrowed)} height="10" />
            </svg>
            <span>
              {formatAmount(resource, used)} of {formatAmount(resource, nominal)}
              {borrowed > 0 && `, ${formatAmount(resource, borrowed)} borrowed`}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
