import type { PoolPolicy } from "./pool.ts";

type Kind = { readonly instanceType: string; readonly spot: boolean };

/** Builds every kind of node that may be requested from a pool's provider, for work or for standby, each once. */
export function buildKinds({
  instanceTypes,
  spot,
  standby,
}: Pick<PoolPolicy, "instanceTypes" | "spot" | "standby">): Kind[] {
  const spots = spot === "Preferred" ? [true, false] : [spot === "Always"];
  const forWork = instanceTypes.flatMap(({ name: instanceType }) => spots.map((spot) => ({ instanceType, spot })));
  const standingBy = standby.filter(({ count }) => count > 0).map(({ instanceType, spot }) => ({ instanceType, spot }));
  return [...new Map([...forWork, ...standingBy].map((kind) => [`${kind.instanceType}\n${kind.spot}`, kind])).values()];
}
