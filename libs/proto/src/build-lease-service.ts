import { LeaseService } from "../generated/services.ts";

/** The leases of one engine id, answered only by its own replicas: `muster.req.provision-<engine>.*`. */
export function buildLeaseService(engine: string): LeaseServiceOfEngine {
  return { ...LeaseService, area: `${LeaseService.area}-${engine}` };
}

export type LeaseServiceOfEngine = Omit<typeof LeaseService, "area"> & { readonly area: string };
