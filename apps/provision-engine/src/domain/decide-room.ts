/** How full a store is. */
export type Fill = {
  readonly bytes: number;
  /** Undefined: there is no limit. */ readonly bytesMax: number | undefined;
};

/** Part of the store that is kept for what has to be written whatever is asked for: that leases are there, and that they end. */
const RESERVED_SHARE = 0.1;

export type RoomVerdict = { readonly kind: "room" } | { readonly kind: "none"; readonly limit: number };

/** Whether what somebody asks for may be written, beside what was promised to be. */
export function decideRoom({ bytes, bytesMax }: Fill, promised: number, added: number): RoomVerdict {
  if (bytesMax === undefined) return { kind: "room" };
  const limit = Math.floor(bytesMax * (1 - RESERVED_SHARE));
  return bytes + promised + added <= limit ? { kind: "room" } : { kind: "none", limit };
}
