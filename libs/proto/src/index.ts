export type { AnyMessageType, MessageOf, MethodDescriptor, PropertiesOf, ServiceDescriptor } from "./descriptor.ts";
export { toCapitalizedNames, toLowercaseNames } from "./enum-table.ts";
export type { EnumTable } from "./enum-table.ts";
export { annotations, labels, schedulingGates, taints } from "./labels.ts";
export { buildLeaseService } from "./build-lease-service.ts";
export type { LeaseServiceOfEngine } from "./build-lease-service.ts";
export type { EnumShape, FieldShape, MessageShape, Shapes } from "./shapes.ts";
export { serviceNames } from "./service-names.ts";
export { bucketKeys, buckets, streams, subjects } from "./subjects.ts";
export { enums } from "../generated/enums.ts";
export { muster } from "../generated/messages.js";
export {
  AuditService,
  FarmService,
  JobService,
  LeaseService,
  NodeService,
  ReservationService,
  services,
  SessionService,
  WatchService,
} from "../generated/services.ts";
