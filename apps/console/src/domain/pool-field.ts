import type { NodeRecord, Pool, Reservation } from "../adapters/messages.ts";

/** The use of a machine of a pool. */
export type MachineUse = "held" | "shared" | "free" | "booting" | "lost";

/** Machines of a pool with the same use, which get one colour. */
export type FieldGroup = {
  readonly use: MachineUse;
  /** The owner of the machines, for example `session/echo`; without an owner, a word for the use. */
  readonly label: string;
  /** The colour of the owner of `held` machines, from 0 to 7; an owner has one colour in every pool. */
  readonly hue: number;
  /** The start of the use; 0 if unknown. */
  readonly sinceMs: number;
  /** The known names of the machines; the remaining machines have no names. */
  readonly nodes: readonly string[];
  readonly count: number;
};

export const HUES = 8;

/** Groups the machines of one pool by use: owners first, then free, booting and lost machines. */
export function buildPoolField(
  pool: Pool,
  reservations: readonly Reservation[],
  nodes: readonly NodeRecord[],
): readonly FieldGroup[] {
  const byNode = holdersOf(pool.name, reservations);
  const held = groupByHolder(byNode);
  const known = byNode.size;
  const own = nodes.filter(({ spec }) => spec?.pool === pool.name);
  const named = (...phases: readonly string[]): string[] =>
    own.filter(({ phase }) => phase !== undefined && phases.includes(phase)).map(({ name }) => name);
  const booting = named("CREATING", "CREATED");
  const rest = (use: MachineUse, label: string, count: number, of: readonly string[] = []): FieldGroup[] =>
    count <= 0 ? [] : [{ use, label, hue: 0, sinceMs: 0, nodes: of.slice(0, count), count }];
  return [
    ...held,
    ...rest("shared", "holder not shown", pool.held - known),
    ...rest("free", "free", pool.available, named("AVAILABLE")),
    ...rest("booting", "booting", booting.length, booting),
    ...pool.unusableByReason.flatMap(({ reason, count }) => rest("lost", LOST[reason] ?? reason, count)),
  ];
}

const LOST: Readonly<Record<string, string>> = {
  NOT_READY: "not ready",
  CORDONED: "cordoned",
  OCCUPIED: "occupied by another owner",
  FOREIGN_USE: "used by pods without a reservation",
};

type Holding = { readonly owner: string; readonly sinceMs: number };

/** Returns the owners of each node of the pool, as a whole or in parts. */
function holdersOf(pool: string, reservations: readonly Reservation[]): ReadonlyMap<string, readonly Holding[]> {
  const byNode = new Map<string, Holding[]>();
  for (const { machines, owner, grantedAtMs } of reservations) {
    const holding = { owner: `${owner?.kind ?? "?"}/${owner?.id ?? "?"}`, sinceMs: grantedAtMs };
    for (const { pool: of, node } of machines) {
      if (of !== pool) continue;
      const holdings = byNode.get(node);
      if (holdings === undefined) byNode.set(node, [holding]);
      else if (!holdings.some(({ owner: other }) => other === holding.owner)) holdings.push(holding);
    }
  }
  return byNode;
}

function groupByHolder(byNode: ReadonlyMap<string, readonly Holding[]>): FieldGroup[] {
  const groups = Map.groupBy(byNode, ([, holdings]) =>
    holdings
      .map(({ owner }) => owner)
      .sort()
      .join(", "),
  );
  return [...groups]
    .map(([label, each]): FieldGroup => {
      const holdings = each[0]?.[1] ?? [];
      return {
        use: holdings.length > 1 ? "shared" : "held",
        label,
        hue: hueOf(label),
        sinceMs: Math.min(...each.flatMap(([, all]) => all.map(({ sinceMs }) => sinceMs))),
        nodes: each.map(([node]) => node).sort(),
        count: each.length,
      };
    })
    .sort((one, other) => (one.label < other.label ? -1 : 1));
}

/** Hashes with FNV-1a, so that neighbours in the order of names get different colours. */
function hueOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const letter of text) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return hash % HUES;
}

/** The positions of the machines of a field; each machine is a square of one unit in rows of `columns`. */
export type FieldShape = { readonly rows: number; readonly paths: readonly string[] };

/** Builds one SVG path for each group, so that a pool of thousands needs few elements. `gap` is the part of a unit between squares. */
export function shapeField(groups: readonly FieldGroup[], columns: number, gap: number): FieldShape {
  let at = 0;
  const side = 1 - gap;
  const paths = groups.map(({ count }) => {
    const squares: string[] = [];
    for (let each = 0; each < count; each += 1, at += 1)
      squares.push(`M${at % columns} ${Math.floor(at / columns)}h${side}v${side}h-${side}z`);
    return squares.join("");
  });
  return { rows: Math.ceil(at / columns), paths };
}

/** Returns the machine at a position of the field; undefined if the position is empty. */
export function machineAt(
  groups: readonly FieldGroup[],
  index: number,
): { readonly group: FieldGroup; readonly node: string | undefined } | undefined {
  let at = index;
  for (const group of groups) {
    if (at < group.count) return { group, node: group.nodes[at] };
    at -= group.count;
  }
  return undefined;
}
