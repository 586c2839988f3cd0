/** The consequence of a refused launch for the attempts that follow it. */
type LaunchVerdict =
  /** Another subnet may have capacity. */
  | { readonly kind: "other-subnet" }
  /** Another zone may have capacity. */
  | { readonly kind: "other-zone" }
  /** No subnet helps, because a quota of the account or of spot is reached. */
  | { readonly kind: "nowhere" }
  /** The type is not available in this form at all. */
  | { readonly kind: "unsupported" }
  | { readonly kind: "throttled" }
  /** The cause is not capacity, but the settings, the rights, or the service. */
  | { readonly kind: "other" };

const BY_CODE: Readonly<Record<string, LaunchVerdict["kind"]>> = {
  InsufficientFreeAddressesInSubnet: "other-subnet",
  InsufficientInstanceCapacity: "other-zone",
  InsufficientHostCapacity: "other-zone",
  InsufficientReservedInstanceCapacity: "other-zone",
  SpotMaxPriceTooLow: "other-zone",
  InstanceLimitExceeded: "nowhere",
  InsufficientCapacity: "nowhere",
  MaxSpotInstanceCountExceeded: "nowhere",
  SpotInstanceCountLimitExceeded: "nowhere",
  VcpuLimitExceeded: "nowhere",
  InvalidInstanceType: "unsupported",
  RequestLimitExceeded: "throttled",
  Throttling: "throttled",
  ThrottlingException: "throttled",
};

/** `Unsupported` means a zone without the type, or a type that is available nowhere in this form; only its text distinguishes the two. */
export function decideLaunchError(code: string, message: string): LaunchVerdict {
  if (code === "Unsupported") return { kind: /availability zone/i.test(message) ? "other-zone" : "unsupported" };
  return { kind: BY_CODE[code] ?? "other" };
}
