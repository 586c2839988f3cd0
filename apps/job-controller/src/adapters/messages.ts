import type { V1Pod, V1Service } from "@kubernetes/client-node";
import { muster } from "@muster/proto";
import type { PodManifest } from "../domain/build-pod.ts";
import type { buildService } from "../domain/build-service.ts";
import { explainWait } from "../domain/explain-wait.ts";
import type { UnitSeen } from "../domain/snapshot.ts";

const { ReservationState } = muster.reservation.v1;

/** A unit as the ledger has it, and the reservation behind it. */
export type OwnedUnit = Exclude<UnitSeen, { readonly state: "none" | "unknown" }> & {
  /** Releases it. Empty where the ledger refused one. */
  readonly reservationId: string;
  /** Higher in every later reservation; 0 where it is not known. */
  readonly sequence: number;
};

/** Undefined for a reservation that is no job's. It is taken to wait since `sinceMs`: when the ledger says that it was made is by another machine's clock. */
export function unitOf(
  reservation: muster.reservation.v1.Reservation.$Properties | null | undefined,
  sinceMs: number,
): OwnedUnit | undefined {
  if (reservation?.owner?.kind !== "job") return undefined;
  const { needs, machines, because } = reservation;
  const [id, reservationId] = [reservation.owner.id ?? "", reservation.id ?? ""];
  const sequence = reservation.sequence ?? 0;
  if (reservation.state === ReservationState.RESERVATION_STATE_GRANTED) {
    const nodes = new Map(machines?.map(({ component, node }) => [component ?? "", node ?? ""]));
    return { id, reservationId, sequence, state: "granted", nodes };
  }
  const code = because?.code ?? "";
  const reason = {
    code: code === "" ? "Waiting" : code,
    pool: because?.pool ?? "",
    requested: because?.requested ?? 0,
  };
  return {
    id,
    reservationId,
    sequence,
    state: "waiting",
    components: needs?.map(({ component }) => component ?? "") ?? [],
    because: { code: reason.code, text: explainWait(reason) },
    sinceMs,
  };
}

/** A manifest as calls take it. What a template says in it is whatever somebody wrote: the API server checks it. */
export function toPod(manifest: PodManifest): V1Pod {
  return manifest as unknown as V1Pod;
}

/** As `toPod`. */
export function toService(manifest: ReturnType<typeof buildService>): V1Service {
  return manifest as unknown as V1Service;
}

/** By pool that is scaled: the most machines that the ledger would let one request wait for. Nodes that the scaler did not make may be more than it would make. */
export function maximaOf(pools: readonly muster.reservation.v1.Pool.$Properties[]): ReadonlyMap<string, number> {
  const scaled = pools.filter(({ elasticAtMs }) => (elasticAtMs ?? 0) > 0);
  return new Map(
    scaled.map(({ name, capacity, unusableByReason, elasticMax }) => {
      const occupied = unusableByReason?.find(({ reason }) => reason === "OCCUPIED")?.count ?? 0;
      return [name ?? "", Math.max(elasticMax ?? 0, (capacity ?? 0) + occupied)] as const;
    }),
  );
}
