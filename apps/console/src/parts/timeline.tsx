import type { ReactNode } from "react";
import { formatAge, formatTime } from "../domain/describe.ts";
import { placeBar, type Bar } from "../domain/timeline.ts";
import { Badge } from "./badge.tsx";

/** Shows a row for each phase or part, with its bars. The text beside them has the same content. */
export function Timeline({ label, bars }: { readonly label: string; readonly bars: readonly Bar[] }): ReactNode {
  if (bars.length === 0) return null;
  const lanes = [...Map.groupBy(bars, ({ label: of }) => of)];
  return (
    <table className="timeline" role="table">
      <caption>{label}</caption>
      <thead role="rowgroup">
        <tr role="row">
          <th scope="col" role="columnheader">
            What
          </th>
          <th scope="col" role="columnheader">
            From
          </th>
          <th scope="col" role="columnheader">
            For
          </th>
          <th scope="col" role="columnheader" className="wide">
            When
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {lanes.map(([of, own]) => (
          <tr key={of} role="row">
            <th scope="row" role="rowheader">
              <Badge stage={own.at(-1)?.stage ?? "waiting"}>{of}</Badge>
            </th>
            <td role="cell">{formatTime(own[0]?.fromMs ?? 0)}</td>
            <td role="cell" className="steps">
              {own.map((bar) => (
                <span key={`${bar.what}-${bar.fromMs}`} title={bar.note}>
                  {bar.what} {formatAge(bar.fromMs, bar.toMs)}
                  {!bar.isOver && " so far"}{" "}
                </span>
              ))}
            </td>
            <td role="cell" className="wide">
              <BarLine own={own} bars={bars} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function BarLine({ own, bars }: { readonly own: readonly Bar[]; readonly bars: readonly Bar[] }): ReactNode {
  return (
    <svg className="bar" width="100%" height="14" aria-hidden="true">
      <rect className="nominal" width="100%" height="14" />
      {own.map((bar) => {
        const { left, width } = placeBar(bar, bars);
        return (
          <rect
            key={`${bar.what}-${bar.fromMs}`}
            className={`phase ${bar.stage} ${bar.what ?? ""}`}
            x={`${left}%`}
            width={`${width}%`}
            height="14"
          >
            <title>{bar.note}</title>
          </rect>
        );
      })}
    </svg>
  );
}
