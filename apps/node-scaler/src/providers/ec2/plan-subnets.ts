/** The provider's facts about a subnet, which lies in one zone. */
export type Subnet = {
  readonly id: string;
  readonly zone: string;
  readonly freeAddresses: number;
  /** True if instances get a public address. */
  readonly isPublic: boolean;
};

type SubnetRequest = {
  /** Undefined for any zone. */
  readonly zone: string | undefined;
  readonly privateIpOnly: boolean;
};

/** Plans the subnets to try in order: the most free addresses first, so that no subnet fills up before the others. Empty if no subnet has capacity. */
export function planSubnets(subnets: readonly Subnet[], wish: SubnetRequest): readonly Subnet[] {
  return subnets
    .filter(({ zone }) => wish.zone === undefined || zone === wish.zone)
    .filter(({ isPublic }) => !wish.privateIpOnly || !isPublic)
    .filter(({ freeAddresses }) => freeAddresses > 0)
    .toSorted((one, other) => other.freeAddresses - one.freeAddresses || (one.id < other.id ? -1 : 1));
}
