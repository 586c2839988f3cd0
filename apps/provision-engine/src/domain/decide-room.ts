/** Fill level of a store. */
export type Fill = {
  readonly bytes: number;
  /** Undefined: no limit. */
  readonly bytesMax: number | undefined;
};

/** Share of the store that is reserved for the engine's own writes: leases must be able to become active and to end. */
const RESERVED_SHARE = 0.1;

export type RoomVerdict = { readonly kind: "room" } | { readonly kind: "none"; readonly limit: number };

/** Decides whether a write that a client asks for fits beside the bytes already promised. */
export function decideRoom({ bytes, bytesMax }: Fill, promised: number, added: number): RoomVerdict {
  if (bytesMax === undefined) return { kind: "room" };
  const limit = Math.floor(bytesMax * (1 - RESERVED_SHARE));
  return bytes + promised + added <= limit ? { kind: "room" } : { kind: "none", limit };
}
