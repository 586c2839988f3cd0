type Kind = { readonly instanceType: string; readonly spot: boolean };

/** Zones without capacity for a kind of instance, spot and on-demand separately, so that further nodes of a batch skip them. */
export type FullZones = {
  has(kind: Kind, zone: string): boolean;
  /** Marks a zone. A repeated mark does not extend the time, because the zone must be retried eventually. */
  add(kind: Kind, zone: string): void;
};

/** Creates the marks, which last as long as the scaler itself remembers a shortage. */
export function makeFullZones(now: () => number, rememberedMs: number): FullZones {
  const untilMs = new Map<string, number>();
  const keyOf = ({ instanceType, spot }: Kind, zone: string): string => `${instanceType}/${spot}/${zone}`;
  const has = (kind: Kind, zone: string): boolean => (untilMs.get(keyOf(kind, zone)) ?? -Infinity) > now();
  return {
    has,
    add: (kind, zone) => {
      if (!has(kind, zone)) untilMs.set(keyOf(kind, zone), now() + rememberedMs);
    },
  };
}
