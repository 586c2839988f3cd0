import { openAuditTrail, type Bus, type AuditTrail } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import type { AuditRecord } from "../domain/replica-set.ts";
import { toAudit, toWireAudit } from "./messages.ts";

export type AuditLog = AuditTrail<AuditRecord>;

export function openAuditLog(bus: Bus): AuditLog {
  return openAuditTrail(bus, {
    type: muster.farm.v1.AuditRecord,
    subjectOf: subjects.farmAudited,
    keyOf: ({ replicaSet }) => replicaSet,
    idOf: ({ id }) => id,
    toWire: toWireAudit,
    fromWire: toAudit,
  });
}
