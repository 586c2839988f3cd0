/** How full a store is. */
export type Fill = {
  readonly bytes: number;
  /** Undefined: there is no limit. */ readonly maxBytes: number | undefined;
};

/** Part of the store that is kept for what has to be written whatever is asked for: that leases are there, and that they end. */
const KEPT = 0.1;

export type RoomVerdict = { readonly has: "room" } | { readonly has: "none"; readonly limit: number };

/** Whether what somebody asks for may be written, beside what was promised to be. */
export function decideRoom({ bytes, maxBytes }: Fill, promised: number, wanted: number): RoomVerdict {
  if (maxBytes === undefined) return { has: "room" };
  const limit = Math.floor(maxBytes * (1 - KEPT));
  return bytes + promised + wanted <= limit ? { has: "room" } : { has: "none", limit };
}
