import type { ReactNode } from "react";
import { formatAge, formatTime } from "../domain/describe.ts";
import { placeBar, type Bar } from "../domain/timeline.ts";
import { Badge } from "./badge.tsx";

/** Bars: a row for each phase or part. The same as text stands beside each bar. */
export function Timeline({ label, bars }: { readonly label: string; readonly bars: readonly Bar[] }): ReactNode {
  if (bars.length === 0) return null;
  return (
    <table className="timeline">
      <caption>{label}</caption>
      <thead>
        <tr>
          <th scope="col">What</th>
          <th scope="col">From</th>
          <th scope="col">For</th>
          <th scope="col" className="wide">
            When
          </th>
        </tr>
      </thead>
      <tbody>
        {bars.map((bar, index) => (
          <tr key={`${bar.label}-${index}`} title={bar.note}>
            <th scope="row">
              <Badge stage={bar.stage}>{bar.label}</Badge>
            </th>
            <td>{formatTime(bar.fromMs)}</td>
            <td>
              {formatAge(bar.fromMs, bar.toMs)}
              {!bar.isOver && " so far"}
            </td>
            <td className="wide">
              <BarLine bar={bar} bars={bars} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function BarLine({ bar, bars }: { readonly bar: Bar; readonly bars: readonly Bar[] }): ReactNode {
  const { left, width } = placeBar(bar, bars);
  return (
    <svg className="bar" width="100%" height="14" aria-hidden="true">
      <rect className="nominal" width="100%" height="14" />
      <rect className={`phase ${bar.stage}`} x={`${left}%`} width={`${width}%`} height="14" />
    </svg>
  );
}
