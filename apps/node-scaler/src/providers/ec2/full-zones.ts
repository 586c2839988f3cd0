type Kind = { readonly instanceType: string; readonly spot: boolean };

/** Zones without room for a kind of instance, spot and on-demand separately, so that the other nodes of a batch skip them. */
export type FullZones = {
  has(kind: Kind, zone: string): boolean;
  /** Marking again while it is remembered does not make it longer: the zone has to be tried again some time. */
  add(kind: Kind, zone: string): void;
};

/** Each for so long, which is as long as the scaler itself remembers that a type is short. */
export function fullZones(now: () => number, rememberedMs: number): FullZones {
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
