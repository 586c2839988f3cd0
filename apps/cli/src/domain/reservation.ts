export type Pool = {
  readonly name: string;
  readonly available: number;
  readonly capacity: number;
  readonly held: number;
  readonly unusable: number;
  readonly waiting: number;
};

/** A reservation as the reservation manager tells it. */
export type Reservation = {
  readonly id: string;
  readonly ownerKind: string;
  readonly ownerId: string;
  readonly state: "waiting" | "granted" | "unknown";
  readonly needs: readonly { readonly component: string; readonly pool: string }[];
  readonly machines: readonly { readonly component: string; readonly pool: string; readonly node: string }[];
  readonly priority: number;
  readonly createdAtMs: number;
  /** Undefined while it waits. */
  readonly grantedAtMs: number | undefined;
  /** Undefined when it does not wait. */
  readonly because:
    | {
        readonly code: string;
        readonly pool: string;
        readonly requested: number;
        readonly available: number;
        readonly ahead: number;
      }
    | undefined;
};
