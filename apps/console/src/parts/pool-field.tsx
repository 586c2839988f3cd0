import { useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { formatAge } from "../domain/describe.ts";
import { machineAt, shapeField, type FieldGroup } from "../domain/pool-field.ts";
import { OwnerLink, ownerParts } from "./owner-link.tsx";

/** The side of one machine in pixels, by the number of machines. */
const SIDES = [
  { upTo: 60, side: 22 },
  { upTo: 400, side: 14 },
  { upTo: 1500, side: 10 },
] as const;
const SMALLEST = 7;
const GAP = 0.16;
/** Maximum owners in the legend; the field shows all owners. */
const MAX_LEGEND = 8;

type FieldParts = { readonly name: string; readonly groups: readonly FieldGroup[]; readonly nowMs: number };

/** Shows one pool as a field of squares, one per machine. The legend repeats it as text. */
export function PoolField({ name, groups, nowMs }: FieldParts): ReactNode {
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const side = SIDES.find(({ upTo }) => count <= upTo)?.side ?? SMALLEST;
  const columns = Math.max(1, Math.floor(width / side));
  const { rows, paths } = useMemo(() => shapeField(groups, columns, GAP), [groups, columns]);
  const [pointed, setPointed] = useState<string>();
  const pointAt = (event: React.PointerEvent): void => {
    const at = event.currentTarget.getBoundingClientRect();
    const column = Math.floor((event.clientX - at.left) / side);
    const index = Math.floor((event.clientY - at.top) / side) * columns + column;
    const machine = column < columns ? machineAt(groups, index) : undefined;
    setPointed(machine && describeMachine(machine.node, machine.group, nowMs));
  };
  return (
    <>
      <div ref={box} className="field">
        {width > 0 && count > 0 && (
          <svg
            role="img"
            aria-label={`Machines of ${name}: ${describeGroups(groups)}`}
            width={columns * side}
            height={rows * side}
            viewBox={`0 0 ${columns} ${rows}`}
            onPointerMove={pointAt}
            onPointerLeave={() => setPointed(undefined)}
          >
            {groups.map((group, index) => (
              <path key={`${group.use}/${group.label}`} className={classOf(group)} d={paths[index]} />
            ))}
          </svg>
        )}
      </div>
      <p className="pointed" aria-hidden="true">
        {pointed ?? " "}
      </p>
      <Legend groups={groups} nowMs={nowMs} />
    </>
  );
}

function Legend({ groups, nowMs }: Omit<FieldParts, "name">): ReactNode {
  const holders = groups.filter(({ use }) => use === "held" || use === "shared").toSorted((a, b) => b.count - a.count);
  const others = groups.filter(({ use }) => use !== "held" && use !== "shared");
  const more = holders.slice(MAX_LEGEND);
  return (
    <ul className="legend">
      {[...holders.slice(0, MAX_LEGEND), ...others].map((group) => (
        <li key={`${group.use}/${group.label}`}>
          <svg width="12" height="12" viewBox="0 0 1 1" aria-hidden="true">
            <path className={classOf(group)} d="M0 0h1v1h-1z" />
          </svg>
          <span className="count">{group.count}</span> <GroupName group={group} />
          {group.sinceMs > 0 && <span className="quiet"> for {formatAge(group.sinceMs, nowMs)}</span>}
        </li>
      ))}
      {more.length > 0 && (
        <li className="quiet">
          {more.reduce((sum, { count }) => sum + count, 0)} more by {more.length} other holders
        </li>
      )}
    </ul>
  );
}

function GroupName({ group: { use, label } }: { readonly group: FieldGroup }): ReactNode {
  return use === "held" ? <OwnerLink owner={ownerParts(label)} /> : <span className="long">{label}</span>;
}

function classOf({ use, hue }: FieldGroup): string {
  return use === "held" ? `use hue${hue}` : `use ${use}`;
}

function describeMachine(node: string | undefined, { label, sinceMs }: FieldGroup, nowMs: number): string {
  const since = sinceMs > 0 ? ` for ${formatAge(sinceMs, nowMs)}` : "";
  return [node, `${label}${since}`].filter((part) => part !== undefined).join(": ");
}

function describeGroups(groups: readonly FieldGroup[]): string {
  const sums = new Map<string, number>();
  for (const { use, count } of groups) sums.set(use, (sums.get(use) ?? 0) + count);
  return [...sums].map(([use, count]) => `${count} ${use}`).join(", ");
}

function useWidth(box: React.RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, [box]);
  return width;
}
