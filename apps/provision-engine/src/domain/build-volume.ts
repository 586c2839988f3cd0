import type { LeaseData } from "@muster/leases/data";

export type Place = { readonly name: string; readonly namespace: string };

/** The claim of a volume; without a class, the cluster's default gives its space. */
export function buildVolumeClaim(
  place: Place,
  { size }: Pick<LeaseData<"volume">, "size">,
  storageClass: string | undefined,
) {
  return {
    metadata: place,
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: `${size}Gi` } },
      ...(storageClass !== undefined && { storageClassName: storageClass }),
    },
  };
}
