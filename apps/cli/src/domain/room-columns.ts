import { roundAmount } from "@muster/resources";
import { listResources, type Share } from "./share.ts";

type Amounts = Readonly<Record<string, number>>;
type Room = { readonly allocatable: Amounts; readonly free: Amounts };

export type RoomColumn = {
  readonly header: string;
  /** Formats the free and the allocatable amount, such as `500m/4`; undefined if unknown. */
  readonly cellOf: (room: Room | undefined) => string;
};

/** Returns columns of free amounts: cpu, memory, and the accelerators that any of these has. Returns no columns if no size is known. */
export function buildRoomColumns(rooms: readonly Room[]): readonly RoomColumn[] {
  const names = new Set<string>();
  for (const { allocatable } of rooms)
    for (const [name, amount] of Object.entries(allocatable)) if (amount > 0 && isShown(name)) names.add(name);
  const shown = listResources(Object.fromEntries([...names].map((name) => [name, ""])));
  return shown.map((name) => ({
    header: `FREE ${headingOf(name, shown)}`,
    cellOf: (room) => {
      const all = room?.allocatable[name] ?? 0;
      return all === 0 ? "-" : `${roundAmount(name, room?.free[name] ?? 0)}/${roundAmount(name, all)}`;
    },
  }));
}

/** Rounds amounts for a table. */
export function roundShare(amounts: Amounts): Share {
  return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, roundAmount(name, amount)]));
}

function isShown(name: string): boolean {
  return name === "cpu" || name === "memory" || name.includes("/");
}

function headingOf(name: string, all: readonly string[]): string {
  return shortenResource(name, all).toUpperCase();
}

/** Shortens `nvidia.com/gpu` to `gpu`, unless two short names would be equal. */
export function shortenResource(name: string, all: readonly string[]): string {
  const short = (text: string) => text.slice(text.indexOf("/") + 1);
  const isUnique = all.filter((each) => short(each) === short(name)).length === 1;
  return isUnique ? short(name) : name;
}
